// All that the controller knows: fed by the informers on the loop's thread and by the answers to its own writes on the worker's,
// read as snapshots by the worker. Every change queues the keys of what it may concern.
//
// Thread-safe.
#pragma once

#include <map>
#include <memory>
#include <mutex>
#include <set>
#include <string>
#include <tuple>
#include <vector>

#include "src/controller/channel_claim.h"
#include "src/controller/decide_compute_domain.h"
#include "src/controller/decide_domain.h"
#include "src/controller/decide_node.h"
#include "src/controller/settings.h"
#include "src/controller/store.h"
#include "src/controller/work_key.h"
#include "src/kube/work_queue.h"

namespace cd::controller {

class World {
 public:
  World(kube::WorkQueue& queue, const Clock& clock, const ClusterSettings& settings)
      : queue_(queue), clock_(clock), settings_(settings) {}

  // A new version from a watch or from the answer to a write; what is not newer is ignored.
  void Put(const std::shared_ptr<const api::ComputeDomain>& cd, Source source);
  void Put(const std::shared_ptr<const api::ImexDomain>& domain, Source source);
  void Put(const std::shared_ptr<const api::ImexNode>& node, Source source);
  void Put(const std::shared_ptr<const ChannelClaim>& claim, Source source);
  void Put(const std::shared_ptr<const ClaimTemplate>& claim_template, Source source);
  void Remove(const std::shared_ptr<const api::ComputeDomain>& cd);
  void Remove(const std::shared_ptr<const api::ImexDomain>& domain);
  void Remove(const std::shared_ptr<const api::ImexNode>& node);
  void Remove(const std::shared_ptr<const ChannelClaim>& claim);
  void Remove(const std::shared_ptr<const ClaimTemplate>& claim_template);

  // After a complete list as of `version`: what is known from our own writes and reads alone, and is no newer than that, is gone.
  template <typename T>
  void ForgetUnlisted(const std::string& version, const std::map<api::ObjectKey, std::shared_ptr<const T>>& listed) {
    for (const auto& object : Unlisted(version, listed)) Remove(object);
  }

  // This process begins to act: how long the claims it finds have waited is unknown.
  void BeginToAct();

  // Without verified, looked, gone_nodes.
  DomainSnapshot SnapshotDomain(const std::string& name) const;
  // nullopt: there is no such IMEXNode.
  std::optional<NodeSnapshot> SnapshotNode(const std::string& name) const;
  // nullopt: there is no such ComputeDomain. Without now and times.
  std::optional<ComputeDomainSnapshot> SnapshotComputeDomain(const api::ObjectKey& key) const;

  void Remember(const std::vector<WakeRecord>& records);
  // The claims of a gated ComputeDomain that are to be let go; empty: none.
  void OrderRelease(const std::string& compute_domain_uid, std::set<std::string> claims);
  // False when the node is known to be in another clique, or in none.
  bool MayBeIn(const std::string& node, const std::string& clique_id) const;
  // True when the node is known to be in that clique, and reports no channel of another one.
  bool MustBeIn(const std::string& node, const std::string& clique_id) const;
  // For people: "ComputeDomain ns/name", or the UID when it is unknown.
  std::string NameOfComputeDomain(const std::string& uid) const;

 private:
  struct Progress {
    SteadyTime first_in_use;
    bool old = false;
    domain::WakeState state = domain::WakeState::kWaiting;
    std::optional<std::string> calls = std::nullopt;
  };
  using Keys = std::set<api::ObjectKey>;

  template <typename T>
  std::vector<std::shared_ptr<const T>> Unlisted(const std::string& version,
                                                 const std::map<api::ObjectKey, std::shared_ptr<const T>>& listed) const {
    const std::lock_guard lock(mutex_);
    return std::get<const Store<T>&>(std::tie(compute_domains_, domains_, nodes_, claims_, templates_)).Unlisted(version, listed);
  }

  void QueueDomain(const std::string& name) { queue_.Add(ImexDomainKey(name)); }
  void QueueNode(const std::string& name) { queue_.Add(NodeKey(name)); }
  void QueueComputeDomain(const api::ObjectKey& key) { queue_.Add(ComputeDomainKey(key)); }
  void QueueComputeDomain(const std::string& uid);
  void QueueNodesExempting(const std::string& uid);
  void QueueDomainsOf(const api::ImexNode& node);
  void QueueExclusiveDomainsOf(const std::string& compute_domain_uid);
  void QueueThoseWhoLeft(const api::ImexDomain& before, const api::ImexDomain& after);
  void QueueClaimsPlace(const ChannelClaim& claim);
  void NodeChanged(const api::ImexNode& node);
  void QueueNeighbours(const api::ImexNode& node);
  void DomainChanged(const api::ImexDomain& domain);
  void ComputeDomainChanged(const api::ComputeDomain& cd);
  void TemplateChanged(const ClaimTemplate& claim_template);
  void IndexMembers(const api::ImexDomain& domain);
  void UnindexMembers(const api::ImexDomain& domain);
  void Index(const ChannelClaim& claim);
  void Unindex(const ChannelClaim& claim);

  domain::Clique CliqueNamed(const std::string& name) const;
  // Of the IMEXDomain it is told to be in, else of one it is a member of, else of the one it belongs in.
  std::string CliqueNameOf(const api::ImexNode& node) const;
  std::string CliqueIdOf(const api::ImexNode& node) const;
  // One that it is a member of, or empty.
  std::string MembershipOf(const std::string& node) const;
  // Empty: it reports no clique, or several.
  std::string WantedDomainOf(const api::ImexNode& node) const;
  domain::Demand DemandOf(const ChannelClaim& claim) const;
  bool Concerns(const domain::Clique& clique, const api::ImexNode& node) const;
  std::string NameOfLocked(const std::string& uid) const;
  bool GateOpen(const std::string& compute_domain_uid) const;
  std::vector<const ChannelClaim*> ClaimsOf(const api::ComputeDomain& cd) const;
  void Learn(domain::KnownDomains& known, const std::string& uid) const;
  // Without its gate, of which the place of a node does not depend.
  void LearnView(domain::KnownDomains& known, const std::string& uid) const;
  TemplateView ViewTemplate(const api::ComputeDomain& cd) const;
  std::vector<const ChannelClaim*> ClaimsOn(const std::string& node) const;

  kube::WorkQueue& queue_;
  const Clock& clock_;
  const ClusterSettings settings_;
  mutable std::mutex mutex_;  // guards all below
  Store<api::ComputeDomain> compute_domains_;
  Store<api::ImexDomain> domains_;
  Store<api::ImexNode> nodes_;
  Store<ChannelClaim> claims_;
  Store<ClaimTemplate> templates_;
  // IMEXDomains by node. More than one when old views admitted the node twice: each has to hear of it, or one keeps its slot for
  // ever.
  std::map<std::string, std::set<std::string>> domains_of_member_;
  std::map<std::string, api::ObjectKey> key_by_uid_;     // ComputeDomains
  std::set<std::string> exclusive_;                      // UIDs of those with isolationMode Domain
  std::map<std::string, Keys> claims_by_domain_;         // ComputeDomain UID; claims in use
  std::map<std::string, Keys> claims_by_node_;           // claims in use
  std::map<std::string, Progress> progress_;             // by claim UID; claims in use
  std::map<std::string, std::set<std::string>> orders_;  // claims to be let go, by ComputeDomain UID
};

}  // namespace cd::controller
