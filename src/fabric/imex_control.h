// nvidia-imex from the outside: the files it reads at its start, and what nvidia-imex-ctl prints. Pure functions on text.
//
// Members know each other by host names of a fixed-length node map that nvidia-imex reads once; who is behind a name stands in
// the hosts file, which is rewritten while nvidia-imex runs. The names carry a hash of the domain's name, so that daemons of two
// domains never take each other for the same one when a pod's IP is reused.
#pragma once

#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "src/base/result.h"
#include "src/fabric/daemon_files.h"

namespace cd::fabric {

// Where an empty slot points: resolves without DNS and reaches nobody (nothing of ours listens there).
inline constexpr char kEmptySlotAddress[] = "127.0.0.2";

// Files nvidia-imex uses below the daemon's run directory.
struct ImexPaths {
  std::string config;          // --config of nvidia-imex and nvidia-imex-ctl
  std::string nodes;           // the node map
  std::string command_socket;  // nvidia-imex-ctl's unix socket
};
ImexPaths ImexPathsIn(const std::string& run_dir);

// FNV-1a, 64 bit, as 10 lower-case hex digits. Not cryptographic: names only have to differ between domains that meet by chance.
std::string DomainHash(std::string_view domain_name);
// imex-<DomainHash>-<index, four digits>
std::string SlotHostName(std::string_view domain_name, int index);

// The node map: one name per slot, in order.
std::string RenderNodes(const DesiredDomain& domain);
// config.cfg. `address` is what nvidia-imex and its command service bind to: without an explicit one they guess an interface, and
// fail where IPv6 is off.
std::string RenderConfig(const DesiredConfig& config, const std::optional<DesiredTls>& tls, const std::string& address,
                         const ImexPaths& paths);

// Address of every slot, as the hosts file shall say it: `own_address` at the own index whatever `hosts` says, kEmptySlotAddress
// where nobody is.
std::vector<std::string> SlotAddresses(const DesiredDomain& domain, const std::vector<DesiredHost>& hosts,
                                       const std::string& own_address);
// `current` with our block replaced, or appended when there is none; every other line stays. The same input gives the same text.
std::string RenderHosts(std::string_view current, std::string_view domain_name, const std::vector<std::string>& addresses);
// `current` without our block.
std::string RemoveHostsBlock(std::string_view current);

// The last line of an nvidia-imex that ended, for people: without the stamps of its log, which differ at every attempt, and with
// the remedy where the cause is known.
std::string ExplainLastLine(std::string_view line);

// `nvidia-imex-ctl -q`: one state word. kUnavailable, with what was printed, when it is not one.
Result<std::string> ParseState(std::string_view output);

// What `nvidia-imex-ctl -N -j` says about the node that asks.
struct DomainReport {
  std::string version;                     // of this node's nvidia-imex
  std::map<int, std::string> connections;  // this node's view: index → CONNECTED, NEVER_CONNECTED, …
  std::string domain_state;                // UP, DEGRADED or DOWN, over all slots
  bool operator==(const DomainReport&) const = default;
};
Result<DomainReport> ParseDomainReport(std::string_view output, int own_index);

}  // namespace cd::fabric
