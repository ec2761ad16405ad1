#include "src/domain/cd_status.h"

#include <algorithm>
#include <utility>

#include "src/domain/exemptions.h"
#include "src/domain/partition.h"

namespace cd::domain {

using api::ChannelLease;
using api::ComputeDomainStatus;
using api::Condition;
using api::DaemonState;
using api::FabricState;
using api::ImexDomain;
using api::ImexNode;
using api::LeaseState;
using api::MemberStatus;
using api::PartitionStatus;

namespace {

struct Member {
  MemberStatus status;
  const ImexNode* report = nullptr;
  bool without_fabric = false;
  std::string why_not_ready;  // empty when ready
};

// The first few; empty: none.
std::string Named(const std::vector<std::string>& nodes) {
  constexpr std::size_t kMostNamed = 3;
  std::string names;
  for (std::size_t i = 0; i < std::min(nodes.size(), kMostNamed); ++i) names += (i == 0 ? "" : ", ") + nodes[i];
  return nodes.size() > kMostNamed ? names + " and " + std::to_string(nodes.size() - kMostNamed) + " more" : names;
}

const ImexDomain* DomainNamed(const StatusInput& input, const std::string& name) {
  const auto it = input.domains.find(name);
  return it == input.domains.end() ? nullptr : it->second.get();
}

// With what the daemon says itself, if anything.
std::string NotReadyDaemon(const ImexNode& node) {
  const std::string& message = node.status.daemon.message;
  return "its IMEX daemon is not ready" + (message.empty() ? "" : ": " + message);
}

constexpr char kUnseen[] =
    "its IMEX daemon says READY, but the other nodes' daemons do not see it: compare the nodes' driver versions, and check that "
    "they reach each other on the IMEX ports";

// The clique a node is in, as long as anything tells.
std::string CliqueOf(const ImexNode& node) {
  if (node.domain) return api::IdentityOf(node.domain->name).clique_id;
  return node.status.clique_ids.size() == 1 ? node.status.clique_ids.front() : "";
}

// The IMEX domain that serves, or would serve, the ComputeDomain on the node.
const ImexDomain* DomainOf(const StatusInput& input, const ImexNode* node) {
  if (node == nullptr) return nullptr;
  if (input.cd.isolation_mode == api::IsolationMode::kDomain)
    return DomainNamed(input, api::DomainName({CliqueOf(*node), input.cd.meta.uid}));
  return DomainNamed(input, node->domain ? node->domain->name : CliqueOf(*node));
}

const api::Refusal* RefusalOf(const StatusInput& input, const ImexNode& node) {
  const std::string& uid = input.cd.meta.uid;
  const api::Refusal* refusal = FindRefusal(node.refusals, node.meta.name, uid);
  // What its plugin reads, also where that is another domain than the ComputeDomain's.
  const ImexDomain* told = node.domain ? DomainNamed(input, node.domain->name) : nullptr;
  return refusal == nullptr && told != nullptr ? FindRefusal(told->refusals, node.meta.name, uid) : refusal;
}

// Processes of others keep a node from moving into an exclusive domain, or out of one.
std::string HeldByOthers(const std::string& uid, const ImexNode& node) {
  for (const api::NodeChannel& entry : node.status.channels) {
    if (entry.compute_domain_uid == uid) continue;
    return "processes of the ComputeDomain with UID " + entry.compute_domain_uid + " still hold channel " +
           std::to_string(entry.channel) + " there; it is moved to this ComputeDomain's IMEX domain when they have ended";
  }
  return "";
}

std::string WhyNotReady(const StatusInput& input, const ImexNode* node, const ImexDomain* domain) {
  const std::string& uid = input.cd.meta.uid;
  if (node == nullptr || !node->reported) return "its kubelet plugin has not reported";
  if (const api::Refusal* refusal = RefusalOf(input, *node)) return refusal->message.empty() ? refusal->reason : refusal->message;
  if (domain == nullptr || FindMember(*domain, node->meta.name) == nullptr) {
    const bool exclusive = input.cd.isolation_mode == api::IsolationMode::kDomain;
    const std::string held = exclusive ? HeldByOthers(uid, *node) : "";
    return held.empty() ? "it has no slot in an IMEX domain yet" : held;
  }
  const ChannelLease* lease = FindLease(*domain, uid);
  if (lease == nullptr || lease->state != LeaseState::kActive) return "its clique has no channel for this ComputeDomain yet";
  if (api::IsElsewhere(node->status.fabric, node->status.clique_ids, domain->clique_id))
    return "its GPUs have left the NVLink partition that its processes hold channels of";
  if (api::UnderMaintenance(*node)) return "its IMEX daemon is under maintenance";
  if (!IsReadyIn(*domain, *node)) return NotReadyDaemon(*node);
  return ServesNow(*domain, *node) ? "" : kUnseen;
}

Member Describe(const StatusInput& input, const std::string& name) {
  Member member;
  member.report = FindNode(input.reports, name);
  const ImexDomain* domain = DomainOf(input, member.report);
  member.status.node = name;
  // An exclusive domain may not be there before the partition is chosen, by the cliques of those who wait for it.
  if (member.report != nullptr) member.status.clique_id = domain != nullptr ? domain->clique_id : CliqueOf(*member.report);
  if (member.report != nullptr) member.status.address = member.report->status.daemon.address;
  if (domain == nullptr && member.report != nullptr && FindExemption(*member.report, input.cd.meta.uid) != nullptr) {
    member.without_fabric = member.status.ready = true;
    return member;
  }
  if (const api::DomainMember* slot = domain == nullptr ? nullptr : FindMember(*domain, name)) member.status.index = slot->index;
  member.why_not_ready = WhyNotReady(input, member.report, domain);
  member.status.ready = member.why_not_ready.empty();
  return member;
}

// nvidia-imex talks to its own version only, and that is the driver's.
std::string VersionsThatDiffer(const std::vector<Member>& members) {
  std::map<std::string, std::vector<std::string>> nodes;  // by version
  for (const Member& member : members) {
    if (!member.without_fabric && !member.report->status.driver_version.empty())
      nodes[member.report->status.driver_version].push_back(member.status.node);
  }
  if (nodes.size() < 2) return "";
  std::string text = "; their driver versions differ, and IMEX daemons of different versions do not talk to each other:";
  for (const auto& [version, of] : nodes) text += (text.back() == ':' ? " " : "; ") + version + " on " + Named(of);
  return text;
}

// Empty when every ready node of a partition sees every other one CONNECTED. Else the node that most others do not see is named:
// its own daemon may well say READY.
std::string NotConnected(const std::vector<Member>& members) {
  std::map<std::string, std::vector<std::string>> unseen;  // node → by which others
  for (const Member& a : members) {
    for (const Member& b : members) {
      if (a.without_fabric || a.status.node == b.status.node || a.status.clique_id != b.status.clique_id) continue;
      const auto& connected = a.report->status.daemon.connected;
      if (std::find(connected.begin(), connected.end(), b.status.index) == connected.end())
        unseen[b.status.node].push_back(a.status.node);
    }
  }
  const auto worst = std::max_element(unseen.begin(), unseen.end(),
                                      [](const auto& a, const auto& b) { return a.second.size() < b.second.size(); });
  if (worst == unseen.end()) return "";
  return "not every node is connected with every other one yet: node " + worst->first + " is not seen by " +
         Named(worst->second) + VersionsThatDiffer(members);
}

std::vector<PartitionStatus> Partitions(const StatusInput& input, const std::vector<Member>& members) {
  std::vector<PartitionStatus> out;
  for (const auto& [name, domain] : input.domains) {
    const ChannelLease* lease = FindLease(*domain, input.cd.meta.uid);
    if (lease == nullptr || lease->state != LeaseState::kActive) continue;
    PartitionStatus partition{domain->clique_id, name, lease->channel, 0, 0};
    for (const Member& member : members) {
      if (member.status.clique_id != domain->clique_id) continue;
      ++partition.nodes;
      if (member.status.ready) ++partition.ready_nodes;
    }
    out.push_back(std::move(partition));
  }
  return out;
}

std::string PartitionOf(const StatusInput& input, const std::vector<Member>& members) {
  if (input.cd.partition_policy == api::PartitionPolicy::kAny) return "";
  std::map<std::string, int> nodes;
  std::set<std::string> begun;
  for (const Member& member : members) {
    if (!member.status.clique_id.empty()) {
      ++nodes[member.status.clique_id];
      const auto& held = member.report->status.channels;
      const auto of_this = [&](const api::NodeChannel& entry) { return entry.compute_domain_uid == input.cd.meta.uid; };
      if (std::any_of(held.begin(), held.end(), of_this)) begun.insert(member.status.clique_id);
    } else if (!member.without_fabric && !input.cd.status.partition.empty()) {
      return input.cd.status.partition;  // a node of which nothing is known may be there
    }
  }
  std::set<std::string> leased;
  for (const auto& [name, domain] : input.domains) {
    const ChannelLease* lease = FindLease(*domain, input.cd.meta.uid);
    if (lease != nullptr && lease->state == LeaseState::kActive) leased.insert(domain->clique_id);
  }
  return ChoosePartition(input.cd.status.partition, nodes, leased, begun);
}

Condition Accepted(const StatusInput& input) {
  if (input.not_accepted) return {"Accepted", "False", "NotServed", *input.not_accepted, 0, ""};
  if (input.finalizer_refused) return {"Accepted", "False", "FinalizerRefused", *input.finalizer_refused, 0, ""};
  if (input.template_conflict) return {"Accepted", "False", "TemplateNameTaken", *input.template_conflict, 0, ""};
  if (input.template_refused) return {"Accepted", "False", "TemplateRefused", *input.template_refused, 0, ""};
  std::string how = "pods join by the ResourceClaimTemplate " + input.cd.claim_template_name;
  if (input.cd.isolation_mode == api::IsolationMode::kDomain)
    how += "; each takes a whole node (isolationMode Domain): one pod of this ComputeDomain per node";
  return {"Accepted", "True", "Accepted", std::move(how), 0, ""};
}

std::string NamesOfNodesWithoutFabric(const std::vector<Member>& members) {
  std::vector<std::string> names;
  for (const Member& member : members) {
    if (member.without_fabric) names.push_back(member.status.node);
  }
  return Named(names);
}

Condition AllReady(const std::vector<Member>& members) {
  const std::string names = NamesOfNodesWithoutFabric(members);
  if (names.empty()) return {"Ready", "True", "AllNodesReady", "every node of the ComputeDomain is ready", 0, ""};
  return {
      "Ready",
      "True",
      "SomeNodesWithoutFabric",
      "every node of the ComputeDomain is ready, but nodes without multi-node NVLink run their pods without a channel: " + names,
      0,
      ""};
}

Condition Ready(const std::vector<Member>& members, bool accepted) {
  if (!accepted) return {"Ready", "False", "NotAccepted", "see condition Accepted", 0, ""};
  if (members.empty()) return {"Ready", "False", "NoNodes", "no pod with a claim of this ComputeDomain is scheduled", 0, ""};
  constexpr std::size_t kMostNamed = 3;
  std::size_t waiting = 0;
  std::string named;
  for (const Member& member : members) {
    if (member.status.ready) continue;
    if (++waiting <= kMostNamed)
      named += (named.empty() ? "" : "; ") + ("node " + member.status.node + ": " + member.why_not_ready);
  }
  if (waiting == 0) return AllReady(members);
  if (waiting > kMostNamed) named += "; and " + std::to_string(waiting - kMostNamed) + " more";
  return {"Ready", "False", "NodesNotReady", named, 0, ""};
}

Condition Formed(const std::vector<Member>& members, bool ready) {
  if (!ready) return {"Formed", "False", "NotReady", "see condition Ready", 0, ""};
  if (std::string missing = NotConnected(members); !missing.empty())
    return {"Formed", "False", "NodesNotConnected", std::move(missing), 0, ""};
  return {"Formed", "True", "AllNodesConnected", "every node is connected with every other one of its clique", 0, ""};
}

// A node on which containers of this ComputeDomain hold the channel, but the daemon or the fabric fails.
Condition Degraded(const StatusInput& input, const std::vector<Member>& members) {
  const std::string& uid = input.cd.meta.uid;
  for (const Member& member : members) {
    if (member.report == nullptr) continue;
    const auto& status = member.report->status;
    const bool holds = std::any_of(status.channels.begin(), status.channels.end(),
                                   [&](const api::NodeChannel& entry) { return entry.compute_domain_uid == uid; });
    if (!holds) continue;
    if (status.daemon.state != DaemonState::kReady) {
      return {"Degraded",
              "True",
              "DaemonNotReady",
              "node " + member.status.node + ": pods run, but " + NotReadyDaemon(*member.report),
              0,
              ""};
    }
    if (status.fabric != FabricState::kReady) {
      return {"Degraded", "True", "FabricNotReady", "node " + member.status.node + ": " + status.fabric_message, 0, ""};
    }
    const ImexDomain* domain = DomainOf(input, member.report);
    const api::DomainMember* slot = domain == nullptr ? nullptr : FindMember(*domain, member.status.node);
    if (slot != nullptr && slot->unseen)
      return {"Degraded", "True", "NodeNotSeen", "node " + member.status.node + ": pods run, but " + kUnseen, 0, ""};
  }
  return {"Degraded", "False", "AsExpected", "", 0, ""};
}

void Stamp(Condition& condition, const api::ComputeDomain& cd, const std::string& now) {
  condition.observed_generation = cd.meta.generation;
  condition.last_transition_time = now;
  for (const Condition& old : cd.status.conditions) {
    if (old.type == condition.type && old.status == condition.status) condition.last_transition_time = old.last_transition_time;
  }
}

const Condition* Find(const ComputeDomainStatus& status, const std::string& type) {
  for (const Condition& condition : status.conditions) {
    if (condition.type == type) return &condition;
  }
  return nullptr;
}

}  // namespace

bool IsReadyIn(const ImexDomain& domain, const ImexNode& node) {
  const api::DomainMember* member = FindMember(domain, node.meta.name);
  const api::NodeDaemon& daemon = node.status.daemon;
  if (api::IsElsewhere(node.status.fabric, node.status.clique_ids, domain.clique_id) || api::UnderMaintenance(node)) return false;
  return member != nullptr && node.domain && node.domain->uid == domain.meta.uid && node.domain->index == member->index &&
         daemon.state == DaemonState::kReady && daemon.domain_uid == domain.meta.uid && daemon.index == member->index;
}

bool ServesNow(const ImexDomain& domain, const ImexNode& node) {
  return IsReadyIn(domain, node) && !FindMember(domain, node.meta.name)->unseen;
}

Formation FormationOf(const StatusInput& input) {
  std::vector<Member> members;
  for (const std::string& node : input.nodes) members.push_back(Describe(input, node));
  const Condition ready = Ready(members, true);
  if (ready.status != "True") return {members.size(), ready.message};
  return {members.size(), NotConnected(members)};
}

ComputeDomainStatus Summarize(const StatusInput& input) {
  std::vector<Member> members;
  for (const std::string& node : input.nodes) members.push_back(Describe(input, node));
  ComputeDomainStatus status;
  status.observed_generation = input.cd.meta.generation;
  status.total_nodes = static_cast<int>(members.size());
  status.ready_nodes =
      static_cast<int>(std::count_if(members.begin(), members.end(), [](const Member& m) { return m.status.ready; }));
  status.nodes_without_fabric =
      static_cast<int>(std::count_if(members.begin(), members.end(), [](const Member& m) { return m.without_fabric; }));
  status.partition = PartitionOf(input, members);
  status.partitions = Partitions(input, members);
  for (const Member& member : members) {
    if (status.members.size() < static_cast<std::size_t>(api::kMaxStatusMembers)) status.members.push_back(member.status);
  }
  const Condition accepted = Accepted(input);
  const Condition ready = Ready(members, accepted.status == "True");
  const Condition formed = input.formed ? *input.formed : Formed(members, ready.status == "True");
  status.conditions = {accepted, ready, formed, Degraded(input, members)};
  for (Condition& condition : status.conditions) Stamp(condition, input.cd, input.now);
  return status;
}

Urgency UrgencyOf(const ComputeDomainStatus& written, const ComputeDomainStatus& wanted) {
  if (written == wanted) return Urgency::kNothing;
  const Condition* before = Find(written, "Accepted");
  const Condition* after = Find(wanted, "Accepted");
  if (before == nullptr || after == nullptr || before->status != after->status || before->message != after->message ||
      written.observed_generation != wanted.observed_generation || written.partition != wanted.partition) {
    return Urgency::kAtOnce;
  }
  return wanted.total_nodes < written.total_nodes ? Urgency::kLater : Urgency::kSoon;
}

}  // namespace cd::domain
