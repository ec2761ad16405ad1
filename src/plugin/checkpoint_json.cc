#include "src/plugin/checkpoint_json.h"

#include <nlohmann/json.hpp>
#include <utility>

#include "src/api/json_reader.h"
#include "src/base/files.h"

namespace cd::plugin {

using nlohmann::json;

namespace {

constexpr int kVersion = 1;
constexpr char kStarted[] = "PrepareStarted";
constexpr char kCompleted[] = "PrepareCompleted";
constexpr std::array<api::EnumName<ClaimPhase>, 2> kPhases{
    {{kStarted, ClaimPhase::kStarted}, {kCompleted, ClaimPhase::kCompleted}}};

json EncodeChannel(const api::NodeChannel& channel) {
  return {{"domainUID", channel.domain_uid}, {"channel", channel.channel}, {"computeDomainUID", channel.compute_domain_uid}};
}

json EncodeEntry(const ClaimEntry& entry) {
  json out{
      {"claim", EncodeRef(entry.claim)}, {"state", api::NameOf(entry.phase, kPhases)}, {"devices", EncodeDevices(entry.devices)}};
  if (entry.grant) out["grant"] = EncodeGrant(*entry.grant);
  if (entry.phase == ClaimPhase::kStarted) {
    out["nonce"] = entry.nonce;
    out["startedMonotonicMilliseconds"] = entry.started.time_since_epoch().count();
  }
  return out;
}

api::ObjectRef ReadRef(api::JsonReader reader) {
  return {reader.String("namespace"), reader.String("name"), reader.String("uid")};
}

Grant ReadGrant(api::JsonReader reader) {
  return {reader.String("domain"), reader.String("domainUID"), reader.String("cliqueID"), reader.Int("channel"),
          ReadRef(reader.Child("computeDomain"))};
}

ClaimEntry ReadParts(api::JsonReader& reader) {
  ClaimEntry entry;
  entry.claim = ReadRef(reader.Child("claim"));
  if (reader.Has("grant")) entry.grant = ReadGrant(reader.Child("grant"));
  for (api::JsonReader& device : reader.Children("devices")) {
    entry.devices.push_back(
        {device.String("request"), device.String("pool"), device.String("device"), device.OptionalString("shareID")});
  }
  return entry;
}

// UIDs become file names; a channel becomes a device number.
Status Plausible(const ClaimEntry& entry) {
  if (!IsSafePathComponent(entry.claim.uid)) return Fail(ErrorCode::kInvalidArgument, "a claim's UID is no file name");
  if (entry.grant && entry.grant->channel < 1) return Fail(ErrorCode::kInvalidArgument, "a granted channel is below 1");
  return {};
}

api::NodeChannel ReadChannel(api::JsonReader& reader) {
  return {reader.String("domainUID"), reader.Int("channel"), reader.String("computeDomainUID")};
}

}  // namespace

json EncodeRef(const api::ObjectRef& ref) {
  return {{"namespace", ref.ns}, {"name", ref.name}, {"uid", ref.uid}};
}

json EncodeGrant(const Grant& grant) {
  return {{"domain", grant.domain},
          {"domainUID", grant.domain_uid},
          {"cliqueID", grant.clique_id},
          {"channel", grant.channel},
          {"computeDomain", EncodeRef(grant.compute_domain)}};
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
  api::JsonReader reader(&object, path, error);
  ClaimEntry entry = ReadParts(reader);
  if (error) return Fail(*error);
  if (auto plausible = Plausible(entry); !plausible) return Fail(plausible.error());
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
  for (const api::NodeChannel& channel : checkpoint.withdrawing) out["withdrawing"].push_back(EncodeChannel(channel));
  for (const auto& [uid, sequence] : checkpoint.unprepared) out["unprepared"][uid] = sequence;
  return out.dump(1) + "\n";
}

Result<Checkpoint> DecodeCheckpoint(std::string_view text) {
  const json object = json::parse(text, nullptr, false);
  if (!object.is_object()) return Fail(ErrorCode::kInvalidArgument, "not a JSON object");
  std::optional<Error> error;
  api::JsonReader reader(&object, "", error);
  // A newer version only ever adds: an older plugin after a downgrade reads what it knows.
  if (reader.Int("version") < 1) return Fail(ErrorCode::kInvalidArgument, "version: missing or not a number above 0");
  Checkpoint out;
  out.boot_id = reader.String("bootID");
  out.sequence = static_cast<std::uint64_t>(reader.Int64("sequence"));
  out.maintenance = reader.String("maintenance");
  for (api::JsonReader& item : reader.Children("claims")) {
    ClaimEntry entry = ReadParts(item);
    entry.phase = item.Enum("state", kPhases, ClaimPhase::kStarted);
    entry.nonce = item.String("nonce");
    entry.started = SteadyTime(Duration(item.Int64("startedMonotonicMilliseconds")));
    if (auto plausible = Plausible(entry); !plausible) return Fail(plausible.error());
    out.claims[entry.claim.uid] = std::move(entry);
  }
  for (api::JsonReader& item : reader.Children("lingering")) {
    const std::string uid = item.String("claimUID");
    if (!IsSafePathComponent(uid)) return Fail(ErrorCode::kInvalidArgument, "a lingering claim's UID is no file name");
    out.lingering[uid] = ReadGrant(item.Child("grant"));
  }
  for (api::JsonReader& item : reader.Children("withdrawing")) out.withdrawing.insert(ReadChannel(item));
  if (const json* unprepared = reader.Find("unprepared"); unprepared != nullptr && unprepared->is_object()) {
    for (const auto& [uid, sequence] : unprepared->items()) {
      if (sequence.is_number_unsigned()) out.unprepared[uid] = sequence.get<std::uint64_t>();
    }
  }
  if (error) return Fail(*error);
  return out;
}

}  // namespace cd::plugin
