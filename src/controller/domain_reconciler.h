// Brings one IMEXDomain to where DecideDomain wants it.
#pragma once

#include <map>
#include <set>
#include <string>

#include "src/controller/cluster.h"

namespace cd::controller {

// How often a ComputeDomain that cannot be decoded is read, where its IMEXDomain is lost: one LIST each time.
inline constexpr Duration kOwnerAgain{30'000};

// Worker's thread only.
class DomainReconciler {
 public:
  // `gone_after`: how long a Node must be absent before what ran there counts as dead.
  DomainReconciler(World& world, Cluster& cluster, kube::WorkQueue& queue, const Clock& clock, Duration gone_after)
      : world_(world), cluster_(cluster), queue_(queue), clock_(clock), gone_after_(gone_after) {}

  Status Reconcile(const std::string& name);

 private:
  struct Absence {
    SteadyTime next_read;
    std::optional<SteadyTime> since;  // first live read that found no Node; nullopt: the Node was there
  };

  // What was read live in the reconcile under way.
  struct Readings {
    std::map<std::string, domain::Liveness> verified;  // ComputeDomains, by UID
    std::optional<Look> looked;
  };

  void TellOldOptions(const DomainSnapshot& snapshot);
  Result<std::set<std::string>> GoneNodes(const DomainSnapshot& snapshot);
  void AwaitOwner(const std::string& name);
  std::set<std::string> UnseenNodes(const DomainSnapshot& snapshot);
  Status Read(const DomainSnapshot& snapshot, const DomainDecision& decision, Readings& readings);

  World& world_;
  Cluster& cluster_;
  kube::WorkQueue& queue_;
  const Clock& clock_;
  const Duration gone_after_;
  std::map<std::string, Absence> absent_;                            // members without IMEXNode
  std::map<std::string, std::map<std::string, SteadyTime>> unseen_;  // by IMEXDomain: members, and since when
  std::set<std::string> old_options_told_;                           // UIDs of IMEXDomains
  std::map<std::string, std::string> removed_;  // name → UID of an IMEXDomain whose deletion was asked for and not seen yet
};

}  // namespace cd::controller
