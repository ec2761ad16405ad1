#include "src/fabric/daemon_files.h"

#include <netinet/in.h>

#include <algorithm>
#include <limits>
#include <nlohmann/json.hpp>
#include <utility>

#include "src/base/files.h"
#include "src/base/json_reader.h"
#include "src/base/text.h"

namespace cd::fabric {
namespace {

using nlohmann::json;

constexpr int kAnyInt = std::numeric_limits<int>::max();
constexpr std::size_t kMaxError = 1024;
constexpr std::size_t kMaxMessage = 512;  // of it, what the API shows
constexpr std::size_t kMaxVersion = 64;
constexpr std::size_t kMaxRevision = 63;  // a label
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

void CheckVersion(JsonReader& file) {
  if (file.IntWithin("version", 0, kAnyInt, 0) == kDaemonFilesVersion) return;
  file.Reject("version", "must be " + std::to_string(kDaemonFilesVersion) + " (bring plugin and daemon to the same release)");
}

DesiredDomain ReadDomain(JsonReader r) {
  DesiredDomain domain;
  domain.name = r.PlainText("name");
  domain.uid = r.PlainText("uid");
  domain.slots = r.IntWithin("slots", 1, kMaxNodeSlots, 0);
  domain.index = r.IntWithin("index", 0, kMaxNodeSlots - 1, -1);
  if (!IsSafePathComponent(domain.name)) r.Reject("name", "must be an object's name");
  if (!IsSafePathComponent(domain.uid)) r.Reject("uid", "must be a UID");
  if (domain.slots < 1) r.Reject("slots", "must be set");
  if (domain.index < 0 || domain.index >= domain.slots) r.Reject("index", "must be from 0 to slots - 1");
  return domain;
}

DesiredHost ReadHost(JsonReader& r, int slots) {
  DesiredHost host;
  host.index = r.IntWithin("index", 0, kMaxNodeSlots - 1, -1);
  host.address = r.PlainText("address", INET6_ADDRSTRLEN);
  if (host.index < 0 || host.index >= slots) r.Reject("index", "must be from 0 to domain.slots - 1");
  if (!IsIpAddress(host.address)) r.Reject("address", "must be an IP address");
  return host;
}

DesiredConfig ReadConfig(JsonReader r) {
  DesiredConfig config;
  config.wait_for_quorum = r.Has("waitForQuorum") ? r.PlainText("waitForQuorum", 16) : config.wait_for_quorum;
  config.node_disconnected_grace_seconds =
      r.IntWithin("nodeDisconnectedGraceSeconds", -1, kAnyInt, config.node_disconnected_grace_seconds);
  config.log_level = r.IntWithin("logLevel", 0, 4, config.log_level);
  config.server_port = r.IntWithin("serverPort", 1, 65535, config.server_port);
  config.command_port = r.IntWithin("commandPort", 1, 65535, config.command_port);
  const std::string& quorum = config.wait_for_quorum;
  if (quorum != "NONE" && quorum != "RECOVERY" && quorum != "FULL") {
    r.Reject("waitForQuorum", "must be NONE, RECOVERY or FULL");
  }
  if (config.server_port == config.command_port) r.Reject("commandPort", "must differ from serverPort");
  return config;
}

DesiredTls ReadTls(JsonReader r) {
  const auto path = [&r](const char* field) {
    std::string text = r.PlainText(field, kMaxConfiguredPath);
    if (!text.starts_with('/')) r.Reject(field, "must be an absolute path");
    return text;
  };
  return {path("key"), path("certificate"), path("authority")};
}

std::vector<DesiredHost> ReadHosts(JsonReader& file, int slots) {
  std::vector<DesiredHost> hosts;
  for (JsonReader& r : file.Children("hosts", kMaxNodeSlots)) hosts.push_back(ReadHost(r, slots));
  std::sort(hosts.begin(), hosts.end());
  const auto same_index = [](const DesiredHost& a, const DesiredHost& b) { return a.index == b.index; };
  const bool twice = std::adjacent_find(hosts.begin(), hosts.end(), same_index) != hosts.end();
  if (twice) file.Reject("hosts", "must name an index once");
  return hosts;
}

PeerStatus ReadPeer(JsonReader& r) {
  PeerStatus peer{r.IntWithin("index", 0, kMaxNodeSlots - 1, -1), r.PlainText("state", 32)};
  if (peer.index < 0) r.Reject("index", "must be set");
  if (!IsStateWord(peer.state)) r.Reject("state", "must be a word in capitals");
  return peer;
}

}  // namespace

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
  std::optional<Error> error;
  JsonReader file(&*parsed, "", error);
  CheckVersion(file);
  Desired desired;
  desired.run = file.Bool("run");
  desired.idle = file.Bool("idle");
  desired.boot_id = file.PlainText("bootID");
  if (file.Has("domain")) desired.domain = ReadDomain(file.Child("domain"));
  desired.hosts = ReadHosts(file, desired.domain ? desired.domain->slots : kMaxNodeSlots);
  if (file.Has("config")) desired.config = ReadConfig(file.Child("config"));
  if (file.Has("tls")) desired.tls = ReadTls(file.Child("tls"));
  if (error) return Fail(*std::move(error));
  return desired;
}

std::string EncodeDaemonStatus(const DaemonStatus& status) {
  json peers = json::array();
  for (const PeerStatus& peer : status.peers) peers.push_back({{"index", peer.index}, {"state", peer.state}});
  return Dump({{"version", kDaemonFilesVersion},
               {"instance", status.instance},
               {"bootID", status.boot_id},
               {"domain", status.domain},
               {"domainUID", status.domain_uid},
               {"index", status.index},
               {"address", status.address},
               {"state", status.state},
               {"peers", std::move(peers)},
               {"imexVersion", Printable(status.imex_version, kMaxVersion)},
               {"podUID", status.pod_uid},
               {"revision", status.revision},
               {"error", Printable(status.error, kMaxError)}});
}

Result<DaemonStatus> DecodeDaemonStatus(std::string_view text) {
  const auto parsed = ParseJson(text, kMaxDaemonFile);
  if (!parsed) return Fail(parsed.error());
  std::optional<Error> error;
  JsonReader file(&*parsed, "", error);
  CheckVersion(file);
  DaemonStatus status;
  status.instance = file.PlainText("instance", 64);
  status.boot_id = file.PlainText("bootID");
  status.domain = file.PlainText("domain");
  status.domain_uid = file.PlainText("domainUID");
  status.index = file.IntWithin("index", -1, kMaxNodeSlots - 1, -1);
  status.address = file.PlainText("address", INET6_ADDRSTRLEN);
  status.state = file.Has("state") ? file.PlainText("state", 32) : status.state;
  for (JsonReader& r : file.Children("peers", kMaxNodeSlots)) status.peers.push_back(ReadPeer(r));
  status.imex_version = file.PlainText("imexVersion", kGrowth * kMaxVersion);
  status.pod_uid = file.PlainText("podUID", kMaxRevision);
  status.revision = file.PlainText("revision", kMaxRevision);
  status.error = file.PlainText("error", kGrowth * kMaxError);
  if (!IsStateWord(status.state)) file.Reject("state", "must be a word in capitals");
  if (!status.address.empty() && !IsIpAddress(status.address)) file.Reject("address", "must be an IP address");
  if (error) return Fail(*std::move(error));
  return status;
}

api::NodeDaemon ToNodeDaemon(const DaemonStatus& status) {
  api::NodeDaemon daemon;
  daemon.address = status.address;
  daemon.instance = status.instance;
  daemon.domain = status.domain;
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
  if (daemon.state != api::DaemonState::kReady) daemon.message = Printable(status.error, kMaxMessage);
  daemon.pod_uid = status.pod_uid;
  daemon.revision = status.revision;
  return daemon;
}

}  // namespace cd::fabric
