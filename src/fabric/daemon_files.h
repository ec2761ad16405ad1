// The two files through which the kubelet plugin and the node's daemon talk: types and text form. Pure; daemon_directory.h has
// them on disk.
//
//   desired/desired.json   plugin → daemon   {version, run, idle, bootID, domain {name,uid,index,slots}, hosts [{index,address}],
//                                             config {waitForQuorum, nodeDisconnectedGraceSeconds, logLevel, serverPort,
//                                             commandPort}, tls {key, certificate, authority}}
//   status/status.json     daemon → plugin   {version, instance, bootID, domain, domainUID, index, address, state,
//                                             peers [{index,state}], imexVersion, podUID, revision,
//                                             error}
//
// Both are at most 64 KiB. Unknown fields are ignored, so that a newer
// writer can add some; a version other than 1 is refused. The daemon is network-facing: its file is read like any foreign input.
#pragma once

#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "src/api/imex_node.h"
#include "src/base/result.h"

namespace cd::fabric {

inline constexpr int kDaemonFilesVersion = 1;
inline constexpr std::size_t kMaxDaemonFile = 64 << 10;
inline constexpr int kMaxNodeSlots = 1024;

struct DesiredDomain {
  std::string name;  // of the IMEXDomain; its hash is part of the node map's host names
  std::string uid;
  int index = 0;  // this node's line of the node map, 0 … slots-1
  int slots = 0;  // length of the node map
  bool operator==(const DesiredDomain&) const = default;
};

// A live member's address. Slots that are not listed are empty.
struct DesiredHost {
  int index = 0;
  std::string address;  // IPv4 or IPv6
  auto operator<=>(const DesiredHost&) const = default;
};

struct DesiredConfig {
  std::string wait_for_quorum = "NONE";      // NONE | RECOVERY | FULL
  int node_disconnected_grace_seconds = -1;  // -1: never clean up by time
  int log_level = 4;                         // 0 … 4
  int server_port = 50000;
  int command_port = 50005;
  bool operator==(const DesiredConfig&) const = default;
};

// Paths as the daemon sees them (nvidia-imex reads them itself).
struct DesiredTls {
  std::string key;
  std::string certificate;
  std::string authority;
  bool operator==(const DesiredTls&) const = default;
};

struct Desired {
  bool run = false;  // false: nvidia-imex must not run, whatever else is said
  // No channel of the domain is held on this node: a changed config or tls may be taken up by a restart of nvidia-imex.
  // Domain, uid, index and slots are switched at once: the plugin changes them only when that is allowed.
  bool idle = false;
  std::string boot_id;  // handed back in status.json
  std::optional<DesiredDomain> domain;
  std::vector<DesiredHost> hosts;
  DesiredConfig config;
  std::optional<DesiredTls> tls;
  bool operator==(const Desired&) const = default;
};

// States of the daemon itself; the others are nvidia-imex's own words (INITIALIZING … READY, SHUTTING_DOWN, UNAVAILABLE).
inline constexpr char kStateStopped[] = "STOPPED";    // desired.json says not to run, or assigns no domain
inline constexpr char kStateStarting[] = "STARTING";  // nvidia-imex runs and has not answered yet
inline constexpr char kStateStopping[] = "STOPPING";
inline constexpr char kStateFailed[] = "FAILED";  // nvidia-imex ended by itself and will be started again; see error
inline constexpr char kStateReady[] = "READY";
inline constexpr char kPeerConnected[] = "CONNECTED";

struct PeerStatus {
  int index = 0;
  std::string state;  // nvidia-imex-ctl's word, or UNKNOWN before it said one
  bool operator==(const PeerStatus&) const = default;
};

struct DaemonStatus {
  std::string instance;  // random, new at every start of nvidia-imex; empty while none was started
  std::string boot_id;
  std::string domain;      // name of the IMEXDomain; empty: none
  std::string domain_uid;  // of the running (or last started) nvidia-imex; empty: none
  int index = -1;
  std::string address;  // the pod's IP
  std::string state = kStateStopped;
  std::vector<PeerStatus> peers;  // live members of desired.hosts without this node; sorted by index
  std::string imex_version;
  std::string pod_uid;   // of the daemon's own pod, as its command line says
  std::string revision;  // the same of that pod's template
  std::string error;     // why state is not what desired.json asks for
  bool operator==(const DaemonStatus&) const = default;
};

// Decoding checks every limit: ports, indexes within slots, addresses that parse, no index twice, no control characters.
std::string EncodeDesired(const Desired& desired);
Result<Desired> DecodeDesired(std::string_view text);
std::string EncodeDaemonStatus(const DaemonStatus& status);
Result<DaemonStatus> DecodeDaemonStatus(std::string_view text);

// What IMEXNode.status.daemon says for a daemon that holds its lock; without the lock it is kAbsent.
api::NodeDaemon ToNodeDaemon(const DaemonStatus& status);

}  // namespace cd::fabric
