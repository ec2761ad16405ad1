#include "src/plugin/checkpoint_json.h"

#include <nlohmann/json.hpp>
#include <utility>

#include "src/api/references.h"
#include "src/base/files.h"
#include "src/base/json_reader.h"
#include "src/base/json_text.h"
#include "src/fabric/device_numbers.h"

namespace cd::plugin {

using nlohmann::json;

namespace {

constexpr int kVersion = 1;
constexpr char kStarted[] = "PrepareStarted";
constexpr char kCompleted[] = "PrepareCompleted";
constexpr std::array<EnumName<ClaimPhase>, 2> kPhases{{{kStarted, ClaimPhase::kStarted}, {kCompleted, ClaimPhase::kCompleted}}};

json EncodeEntry(const ClaimEntry& entry) {
  json out{
      {"claim", api::EncodeRef(entry.claim)}, {"state", NameOf(entry.phase, kPhases)}, {"devices", EncodeDevices(entry.devices)}};
  if (entry.grant) out["grant"] = EncodeGrant(*entry.grant);
  if (entry.phase == ClaimPhase::kStarted) {
    out["nonce"] = entry.nonce;
    out["startedMonotonicMilliseconds"] = entry.started.time_since_epoch().count();
  }
  return out;
}

Grant ReadGrant(JsonReader reader) {
  return {reader.String("domain"),
          reader.String("domainUID"),
          reader.String("cliqueID"),
          reader.Int("channel"),
          api::ReadRef(reader.Child("computeDomain")),
          reader.Bool("allChannels"),
          reader.Bool("exclusive")};
}

ClaimEntry ReadParts(JsonReader& reader) {
  ClaimEntry entry;
  entry.claim = api::ReadRef(reader.Child("claim"));
  if (reader.Has("grant")) entry.grant = ReadGrant(reader.Child("grant"));
  for (JsonReader& device : reader.Children("devices")) {
    entry.devices.push_back(
        {device.String("request"), device.String("pool"), device.String("device"), device.OptionalString("shareID")});
  }
  return entry;
}

tl::unexpected<Error> Invalid(std::string message) {
  return Fail(ErrorCode::kInvalidArgument, std::move(message));
}

// A UID becomes a file name, and a channel the minor number of a device.
Status CheckUid(const std::string& field, const std::string& uid) {
  return IsSafePathComponent(uid) ? Status{} : Invalid(field + ": " + Quoted(uid) + " is no UID");
}
Status CheckChannel(const std::string& field, int channel) {
  if (channel >= 1 && static_cast<std::uint32_t>(channel) <= fabric::kMaxMinor) return {};
  return Invalid(field + ": " + std::to_string(channel) + " is no channel number");
}

Status CheckParts(JsonReader& reader, const ClaimEntry& entry) {
  if (auto uid = CheckUid(reader.PathOf("claim.uid"), entry.claim.uid); !uid) return uid;
  if (!entry.grant) return {};
  const Grant& grant = *entry.grant;
  if (!grant.WithoutChannel()) return CheckChannel(reader.PathOf("grant.channel"), grant.channel);
  if (grant.channel == 0 && !grant.compute_domain.uid.empty()) return {};
  return Invalid(reader.PathOf("grant") + ": names no IMEX domain, or no ComputeDomain");
}

Status ReadClaim(JsonReader& item, Checkpoint& out) {
  ClaimEntry entry = ReadParts(item);
  entry.phase = item.Enum("state", kPhases, ClaimPhase::kStarted);
  if (auto checked = CheckParts(item, entry); !checked) return checked;
  if (entry.phase == ClaimPhase::kStarted) {
    entry.nonce = item.String("nonce");
    const std::int64_t started = item.Int64("startedMonotonicMilliseconds");
    if (started < 0) return Invalid(item.PathOf("startedMonotonicMilliseconds") + ": must not be below 0");
    entry.started = SteadyTime(Duration(started));
  }
  const std::string uid = entry.claim.uid;
  if (!out.claims.emplace(uid, std::move(entry)).second) return Invalid(item.PathOf("claim.uid") + ": stands there twice");
  return {};
}

Status ReadLingering(JsonReader& item, Checkpoint& out) {
  const std::string uid = item.String("claimUID");
  if (auto checked = CheckUid(item.PathOf("claimUID"), uid); !checked) return checked;
  Grant grant = ReadGrant(item.Child("grant"));
  if (auto checked = CheckChannel(item.PathOf("grant.channel"), grant.channel); !checked) return checked;
  if (!out.lingering.emplace(uid, std::move(grant)).second) return Invalid(item.PathOf("claimUID") + ": stands there twice");
  return {};
}

Status ReadWithdrawing(JsonReader& item, Checkpoint& out) {
  api::NodeChannel channel = api::ReadNodeChannel(item);
  if (auto checked = CheckChannel(item.PathOf("channel"), channel.channel); !checked) return checked;
  out.withdrawing.insert(std::move(channel));
  return {};
}

// Losing one of these would let a Prepare complete that began before its claim's Unprepare.
Status ReadUnprepared(JsonReader reader, Checkpoint& out) {
  const json* unprepared = reader.Find("unprepared");
  if (unprepared == nullptr) return {};
  if (!unprepared->is_object()) return Invalid("unprepared: must be an object, not " + Quoted(*unprepared));
  JsonReader sequences = reader.Child("unprepared");
  for (const auto& [uid, value] : unprepared->items()) {
    const std::int64_t sequence = sequences.Int64(uid, -1);
    if (sequence < 0) return Invalid("unprepared: " + Quoted(value) + " is no sequence number");
    out.unprepared[uid] = static_cast<std::uint64_t>(sequence);
  }
  return {};
}

using ReadItem = Status (*)(JsonReader& item, Checkpoint& out);

Status ReadItems(JsonReader& reader, const char* list, ReadItem read, Checkpoint& out) {
  for (JsonReader& item : reader.Children(list)) {
    if (auto done = read(item, out); !done) return done;
  }
  return {};
}

Status ReadBody(JsonReader& reader, Checkpoint& out) {
  const std::int64_t sequence = reader.Int64("sequence");
  if (sequence < 0) return Invalid("sequence: must not be below 0");
  out.sequence = static_cast<std::uint64_t>(sequence);
  out.boot_id = reader.String("bootID");
  out.maintenance = reader.String("maintenance");
  if (auto read = ReadItems(reader, "claims", ReadClaim, out); !read) return read;
  if (auto read = ReadItems(reader, "lingering", ReadLingering, out); !read) return read;
  if (auto read = ReadItems(reader, "withdrawing", ReadWithdrawing, out); !read) return read;
  return ReadUnprepared(reader, out);
}

}  // namespace

json EncodeGrant(const Grant& grant) {
  json out{{"domain", grant.domain},
           {"domainUID", grant.domain_uid},
           {"cliqueID", grant.clique_id},
           {"channel", grant.channel},
           {"computeDomain", api::EncodeRef(grant.compute_domain)}};
  if (grant.all_channels) out["allChannels"] = true;
  if (grant.exclusive) out["exclusive"] = true;
  return out;
}

json EncodeDevices(const std::vector<ClaimDevice>& devices) {
  json out = json::array();
  for (const ClaimDevice& device : devices) {
    json item{{"request", device.request}, {"pool", device.pool}, {"device", device.device}};
    if (device.share_id) item["shareID"] = *device.share_id;
    out.push_back(std::move(item));
  }
  return out;
}

Result<ClaimEntry> DecodeClaimParts(const json& object, const std::string& path) {
  std::optional<Error> error;
  JsonReader reader(&object, path, error);
  ClaimEntry entry = ReadParts(reader);
  if (error) return Fail(*error);
  if (auto checked = CheckParts(reader, entry); !checked) return Fail(checked.error());
  return entry;
}

std::string EncodeCheckpoint(const Checkpoint& checkpoint) {
  json out{{"version", kVersion},          {"bootID", checkpoint.boot_id},         {"sequence", checkpoint.sequence},
           {"claims", json::array()},      {"lingering", json::array()},           {"withdrawing", json::array()},
           {"unprepared", json::object()}, {"maintenance", checkpoint.maintenance}};
  for (const auto& [uid, entry] : checkpoint.claims) out["claims"].push_back(EncodeEntry(entry));
  for (const auto& [uid, grant] : checkpoint.lingering) {
    out["lingering"].push_back({{"claimUID", uid}, {"grant", EncodeGrant(grant)}});
  }
  for (const api::NodeChannel& channel : checkpoint.withdrawing) out["withdrawing"].push_back(api::EncodeNodeChannel(channel));
  for (const auto& [uid, sequence] : checkpoint.unprepared) out["unprepared"][uid] = sequence;
  return out.dump(1) + "\n";
}

Result<Checkpoint> DecodeCheckpoint(std::string_view text) {
  const json object = json::parse(text, nullptr, false);
  if (!object.is_object()) return Fail(ErrorCode::kInvalidArgument, "not a JSON object");
  std::optional<Error> error;
  JsonReader reader(&object, "", error);
  // A newer version only ever adds: an older plugin after a downgrade reads what it knows.
  if (reader.Int("version") < 1) return Fail(ErrorCode::kInvalidArgument, "version: missing or not a number above 0");
  Checkpoint out;
  const Status read = ReadBody(reader, out);
  // The first wrong type explains what was missed after it.
  if (error) return Fail(*error);
  if (!read) return Fail(read.error());
  return out;
}

std::vector<std::string> ClaimsOfGoDriver(std::string_view text, const std::string& boot_id) {
  const json object = json::parse(text, nullptr, false);
  if (!object.is_object() || object.contains("version") || !object.contains("checksum")) return {};
  // It writes both, so that an older one can read it; the older form has no boot ID.
  const json& newest = MemberOf(object, object.contains("v2") ? "v2" : "v1");
  const json& boot = MemberOf(newest, "nodeBootID");
  if (boot.is_string() && boot != boot_id) return {};
  std::vector<std::string> uids;
  const json& claims = MemberOf(newest, "preparedClaims");
  if (!claims.is_object()) return {};
  for (const auto& [uid, claim] : claims.items()) uids.push_back(uid);
  return uids;
}

}  // namespace cd::plugin
