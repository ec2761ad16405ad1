#include "src/fabric/daemon_files.h"

#include <fcntl.h>
#include <netinet/in.h>
#include <sys/file.h>
#include <sys/stat.h>

#include <algorithm>
#include <nlohmann/json.hpp>
#include <utility>

#include "src/base/files.h"
#include "src/base/text.h"
#include "src/fabric/json_fields.h"

namespace cd::fabric {
namespace {

using nlohmann::json;

constexpr std::size_t kMaxError = 1024;
constexpr std::size_t kMaxVersion = 64;
// A daemon that cut its text before it replaced invalid bytes made three of each.
constexpr std::size_t kGrowth = 3;
// What nvidia-imex accepts for a path in its configuration.
constexpr std::size_t kMaxConfiguredPath = 256;

std::string Dump(const json& value) {
  return value.dump(-1, ' ', false, json::error_handler_t::replace) + "\n";
}

bool IsStateWord(const std::string& word) {
  return !word.empty() &&
         std::all_of(word.begin(), word.end(), [](char c) { return (c >= 'A' && c <= 'Z') || c == '_' || c == '!'; });
}

void ReadVersion(const JsonFields& fields) {
  int version = 0;
  fields.Read("version", version, 0, INT32_MAX);
  if (version != kDaemonFilesVersion) {
    fields.problems().Add("version", "is " + std::to_string(version) + "; this program reads version " +
                                         std::to_string(kDaemonFilesVersion) + ": bring plugin and daemon to the same release");
  }
}

DesiredDomain ReadDomain(const JsonFields& fields) {
  DesiredDomain domain;
  fields.Read("name", domain.name);
  fields.Read("uid", domain.uid);
  fields.Read("slots", domain.slots, 1, kMaxNodeSlots);
  domain.index = -1;
  fields.Read("index", domain.index, 0, kMaxNodeSlots - 1);
  if (!IsSafePathComponent(domain.name)) fields.problems().Add(fields.Path("name"), "must be an object's name");
  if (!IsSafePathComponent(domain.uid)) fields.problems().Add(fields.Path("uid"), "must be a UID");
  if (domain.slots < 1) fields.problems().Add(fields.Path("slots"), "is missing");
  if (domain.index < 0 || domain.index >= domain.slots) {
    fields.problems().Add(fields.Path("index"), "must be from 0 to slots - 1");
  }
  return domain;
}

DesiredHost ReadHost(const JsonFields& fields, int slots) {
  DesiredHost host;
  host.index = -1;
  fields.Read("index", host.index, 0, kMaxNodeSlots - 1);
  fields.Read("address", host.address, INET6_ADDRSTRLEN);
  if (host.index < 0 || host.index >= slots) fields.problems().Add(fields.Path("index"), "must be from 0 to domain.slots - 1");
  if (!IsIpAddress(host.address)) fields.problems().Add(fields.Path("address"), "must be an IP address");
  return host;
}

DesiredConfig ReadConfig(const JsonFields& fields) {
  DesiredConfig config;
  fields.Read("waitForQuorum", config.wait_for_quorum, 16);
  fields.Read("nodeDisconnectedGraceSeconds", config.node_disconnected_grace_seconds, -1, INT32_MAX);
  fields.Read("logLevel", config.log_level, 0, 4);
  fields.Read("serverPort", config.server_port, 1, 65535);
  fields.Read("commandPort", config.command_port, 1, 65535);
  const std::string& quorum = config.wait_for_quorum;
  if (quorum != "NONE" && quorum != "RECOVERY" && quorum != "FULL") {
    fields.problems().Add(fields.Path("waitForQuorum"), "is \"" + quorum + "\"; known are NONE, RECOVERY and FULL");
  }
  if (config.server_port == config.command_port) fields.problems().Add(fields.Path("commandPort"), "must differ from serverPort");
  return config;
}

DesiredTls ReadTls(const JsonFields& fields) {
  DesiredTls tls;
  for (const auto& [field, out] :
       {std::pair{"key", &tls.key}, {"certificate", &tls.certificate}, {"authority", &tls.authority}}) {
    fields.Read(field, *out, kMaxConfiguredPath);
    if (!out->starts_with('/')) fields.problems().Add(fields.Path(field), "must be an absolute path");
  }
  return tls;
}

void CheckHosts(std::vector<DesiredHost>& hosts, JsonProblems& problems) {
  std::sort(hosts.begin(), hosts.end());
  const auto same_index = [](const DesiredHost& a, const DesiredHost& b) { return a.index == b.index; };
  if (std::adjacent_find(hosts.begin(), hosts.end(), same_index) != hosts.end()) problems.Add("hosts", "names an index twice");
}

std::filesystem::path LockPath(const std::filesystem::path& dir) {
  return dir / "status" / "daemon.lock";
}

}  // namespace

std::filesystem::path DesiredPath(const std::filesystem::path& dir) {
  return dir / "desired" / "desired.json";
}
std::filesystem::path StatusPath(const std::filesystem::path& dir) {
  return dir / "status" / "status.json";
}

std::string EncodeDesired(const Desired& desired) {
  json hosts = json::array();
  for (const DesiredHost& host : desired.hosts) hosts.push_back({{"index", host.index}, {"address", host.address}});
  const DesiredConfig& config = desired.config;
  json file = {{"version", kDaemonFilesVersion},
               {"run", desired.run},
               {"idle", desired.idle},
               {"bootID", desired.boot_id},
               {"hosts", std::move(hosts)},
               {"config",
                {{"waitForQuorum", config.wait_for_quorum},
                 {"nodeDisconnectedGraceSeconds", config.node_disconnected_grace_seconds},
                 {"logLevel", config.log_level},
                 {"serverPort", config.server_port},
                 {"commandPort", config.command_port}}}};
  if (const auto& domain = desired.domain) {
    file["domain"] = {{"name", domain->name}, {"uid", domain->uid}, {"index", domain->index}, {"slots", domain->slots}};
  }
  if (const auto& tls = desired.tls) {
    file["tls"] = {{"key", tls->key}, {"certificate", tls->certificate}, {"authority", tls->authority}};
  }
  return Dump(file);
}

Result<Desired> DecodeDesired(std::string_view text) {
  const auto parsed = ParseJson(text, kMaxDaemonFile);
  if (!parsed) return Fail(parsed.error());
  JsonProblems problems;
  const JsonFields fields(*parsed, "", problems);
  Desired desired;
  ReadVersion(fields);
  fields.Read("run", desired.run);
  fields.Read("idle", desired.idle);
  fields.Read("bootID", desired.boot_id);
  if (const json* domain = fields.Find("domain")) desired.domain = ReadDomain(JsonFields(*domain, "domain", problems));
  const int slots = desired.domain ? desired.domain->slots : kMaxNodeSlots;
  fields.ForEach("hosts", kMaxNodeSlots, [&](const JsonFields& host) { desired.hosts.push_back(ReadHost(host, slots)); });
  CheckHosts(desired.hosts, problems);
  if (const json* config = fields.Find("config")) desired.config = ReadConfig(JsonFields(*config, "config", problems));
  if (const json* tls = fields.Find("tls")) desired.tls = ReadTls(JsonFields(*tls, "tls", problems));
  if (!problems.empty()) return Fail(ErrorCode::kInvalidArgument, problems.text());
  return desired;
}

std::string EncodeDaemonStatus(const DaemonStatus& status) {
  json peers = json::array();
  for (const PeerStatus& peer : status.peers) peers.push_back({{"index", peer.index}, {"state", peer.state}});
  return Dump({{"version", kDaemonFilesVersion},
               {"instance", status.instance},
               {"bootID", status.boot_id},
               {"domainUID", status.domain_uid},
               {"index", status.index},
               {"address", status.address},
               {"state", status.state},
               {"peers", std::move(peers)},
               {"imexVersion", Printable(status.imex_version, kMaxVersion)},
               {"error", Printable(status.error, kMaxError)}});
}

Result<DaemonStatus> DecodeDaemonStatus(std::string_view text) {
  const auto parsed = ParseJson(text, kMaxDaemonFile);
  if (!parsed) return Fail(parsed.error());
  JsonProblems problems;
  const JsonFields fields(*parsed, "", problems);
  DaemonStatus status;
  ReadVersion(fields);
  fields.Read("instance", status.instance, 64);
  fields.Read("bootID", status.boot_id);
  fields.Read("domainUID", status.domain_uid);
  fields.Read("index", status.index, -1, kMaxNodeSlots - 1);
  fields.Read("address", status.address, INET6_ADDRSTRLEN);
  fields.Read("state", status.state, 32);
  fields.Read("imexVersion", status.imex_version, kGrowth * kMaxVersion);
  fields.Read("error", status.error, kGrowth * kMaxError);
  fields.ForEach("peers", kMaxNodeSlots, [&](const JsonFields& entry) {
    PeerStatus peer{-1, ""};
    entry.Read("index", peer.index, 0, kMaxNodeSlots - 1);
    entry.Read("state", peer.state, 32);
    if (peer.index < 0 || !IsStateWord(peer.state))
      problems.Add(entry.Path("state"), "must be a state in capitals, with an index");
    status.peers.push_back(std::move(peer));
  });
  if (!IsStateWord(status.state)) problems.Add("state", "must be a word in capitals");
  if (!status.address.empty() && !IsIpAddress(status.address)) problems.Add("address", "must be an IP address");
  if (!problems.empty()) return Fail(ErrorCode::kInvalidArgument, problems.text());
  return status;
}

Result<Desired> ReadDesired(const std::filesystem::path& dir) {
  const auto text = ReadSmallFile(DesiredPath(dir), kMaxDaemonFile);
  if (!text) return Fail(text.error());
  auto desired = DecodeDesired(*text);
  if (!desired) return Fail(Annotate(desired.error(), DesiredPath(dir).string()));
  return desired;
}

Status WriteDesired(const std::filesystem::path& dir, const Desired& desired) {
  const std::string text = EncodeDesired(desired);
  // What the daemon would refuse must not replace what it runs on.
  if (const auto readable = DecodeDesired(text); !readable)
    return Fail(Annotate(readable.error(), "desired state of the daemon"));
  return ReplaceFile(DesiredPath(dir), text);
}

Result<DaemonStatus> ReadDaemonStatus(const std::filesystem::path& dir) {
  const auto text = ReadSmallFile(StatusPath(dir), kMaxDaemonFile);
  if (!text) return Fail(text.error());
  auto status = DecodeDaemonStatus(*text);
  if (!status) return Fail(Annotate(status.error(), StatusPath(dir).string()));
  return status;
}

Status WriteDaemonStatus(const std::filesystem::path& dir, const DaemonStatus& status) {
  return ReplaceFile(StatusPath(dir), EncodeDaemonStatus(status));
}

api::NodeDaemon ToNodeDaemon(const DaemonStatus& status) {
  api::NodeDaemon daemon;
  daemon.address = status.address;
  daemon.instance = status.instance;
  daemon.domain_uid = status.domain_uid;
  daemon.index = status.index;
  if (status.state == kStateReady) {
    daemon.state = api::DaemonState::kReady;
  } else if (status.state == kStateStarting || status.state == "INITIALIZING" || status.state == "INIT_GPU") {
    daemon.state = api::DaemonState::kStarting;
  } else {
    daemon.state = api::DaemonState::kNotReady;
  }
  for (const PeerStatus& peer : status.peers) {
    if (peer.state == kPeerConnected) daemon.connected.push_back(peer.index);
  }
  std::sort(daemon.connected.begin(), daemon.connected.end());
  return daemon;
}

Result<Fd> LockDaemon(const std::filesystem::path& dir) {
  const std::filesystem::path path = LockPath(dir);
  Fd fd(::open(path.c_str(), O_RDWR | O_CREAT | O_CLOEXEC | O_NOFOLLOW, 0600));
  if (!fd) return Fail(ErrnoError(errno, "open " + path.string()));
  if (::flock(fd.get(), LOCK_EX | LOCK_NB) != 0) {
    if (errno == EWOULDBLOCK) return Fail(ErrorCode::kFailedPrecondition, "another daemon of this node holds " + path.string());
    return Fail(ErrnoError(errno, "lock " + path.string()));
  }
  return fd;
}

bool DaemonAlive(const std::filesystem::path& dir) {
  // O_NONBLOCK: the daemon could have put a FIFO there, which must not hang its reader.
  const Fd fd(::open(LockPath(dir).c_str(), O_RDONLY | O_CLOEXEC | O_NOFOLLOW | O_NONBLOCK));
  struct stat info;
  if (!fd || ::fstat(fd.get(), &info) != 0 || !S_ISREG(info.st_mode)) return false;
  // A shared lock is refused only while the daemon holds its exclusive one; a taken one goes with the descriptor.
  return ::flock(fd.get(), LOCK_SH | LOCK_NB) != 0 && errno == EWOULDBLOCK;
}

}  // namespace cd::fabric
