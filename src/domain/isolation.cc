#include "src/domain/isolation.h"

#include <set>

#include "src/domain/imex_options.h"
#include "src/domain/partition.h"

namespace cd::domain {

using api::IsolationMode;
using api::Refusal;

std::string DomainNameFor(const ComputeDomainView& cd, const std::string& clique_id) {
  return api::DomainName({clique_id, cd.isolation == IsolationMode::kDomain ? cd.ref.uid : ""});
}

std::string WantedDomain(const std::string& clique_id, const std::string& current, const api::ImexNode& node,
                         const std::vector<Demand>& demands, const KnownDomains& known) {
  std::set<std::string> asked;
  for (const Demand& demand : demands) {
    if (Judge(demand, known).verdict != Verdict::kServe) continue;
    const ComputeDomainView& view = known.cached.at(demand.config.domain_id);
    std::string name = DomainNameFor(view, clique_id);
    // A partition that was given up may be chosen again by the pod that is here: no reason to leave.
    const bool welcome = name == current || JudgePartition(view, clique_id) == PartitionVerdict::kServe;
    if (welcome && !RefuseExclusive(demand, view, node)) asked.insert(std::move(name));
  }
  if (asked.contains(current)) return current;
  asked.erase(clique_id);
  return asked.empty() ? clique_id : *asked.begin();
}

api::ImexDomain NewDomain(const std::string& name, const std::map<std::string, ComputeDomainView>& known,
                          const api::ImexConfig& cluster) {
  const api::DomainIdentity identity = api::IdentityOf(name);
  api::ImexDomain domain;
  domain.meta.name = name;
  domain.meta.finalizers = {api::kFinalizer};
  domain.clique_id = identity.clique_id;
  domain.imex_config = cluster;
  if (identity.owner_uid.empty()) return domain;
  domain.mode = api::DomainMode::kExclusive;
  domain.compute_domain = api::ObjectRef{"", "", identity.owner_uid};
  const auto owner = known.find(identity.owner_uid);
  if (owner == known.end()) return domain;
  domain.compute_domain = owner->second.ref;
  domain.allocation_mode = owner->second.allocation_mode;
  domain.imex_config = OptionsOver(cluster, owner->second.imex);
  return domain;
}

std::optional<Refusal> RefuseExclusive(const Demand& demand, const ComputeDomainView& view, const api::ImexNode& node) {
  if (view.isolation != IsolationMode::kDomain) return std::nullopt;
  if (!demand.whole_node) {
    return Refuse(
        demand, "WholeNodeNeeded",
        "ComputeDomain " + view.ref.name + " has spec.isolationMode Domain, which needs all slots of the node; the claim has " +
            std::to_string(demand.slots) +
            ": use the ResourceClaimTemplate that the ComputeDomain names (if the nodes' number of slots was changed after "
            "it was made, create the ComputeDomain anew)");
  }
  const bool asks = view.imex && !api::NoFabric(node.status);
  const auto unknown = asks ? UnknownToDriver(*view.imex, node.status.driver_version) : std::nullopt;
  if (!unknown) return std::nullopt;
  return Refuse(demand, "ImexOptionUnknown",
                "spec.imex of ComputeDomain " + view.ref.name + ": nvidia-imex of driver " + node.status.driver_version +
                    " on node " + demand.node + " does not know " + *unknown +
                    "; upgrade the driver, or create the ComputeDomain anew without the option");
}

Refusal RefuseOldDriver(const Demand& demand, const api::ImexNode& node, const std::string& unknown) {
  return Refuse(demand, "ImexOptionUnknown",
                "imexDaemon.config of the driver's chart: nvidia-imex of driver " + node.status.driver_version + " on node " +
                    demand.node + " does not know " + unknown +
                    "; upgrade the node's driver, or have the cluster's administrator change the option");
}

std::optional<Refusal> RefuseInDomain(const Demand& demand, const ComputeDomainView& view, const api::ImexNode& node,
                                      const api::ImexDomain& domain, bool node_is_wanted_here) {
  if (auto refusal = RefuseExclusive(demand, view, node)) return refusal;
  const PartitionVerdict partition = JudgePartition(view, domain.clique_id);
  if (partition == PartitionVerdict::kOther) return RefuseOtherPartition(demand, view, domain.clique_id);
  if (partition == PartitionVerdict::kChoose || !node_is_wanted_here) return std::nullopt;
  if (domain.mode == api::DomainMode::kExclusive) {
    return Refuse(demand, "NodeIsExclusive",
                  "node " + demand.node + " runs ComputeDomain " + ToString(*domain.compute_domain) +
                      ", which has spec.isolationMode Domain: nobody else runs there while its pod does; delete one of the pods, "
                      "and use a scheduler that accounts for the capacity of devices");
  }
  return Refuse(
      demand, "NodeIsShared",
      "node " + demand.node + " runs pods of other ComputeDomains, and ComputeDomain " + view.ref.name +
          " has spec.isolationMode Domain: it needs the node for itself; delete one of the pods, and use a scheduler that "
          "accounts for the capacity of devices");
}

}  // namespace cd::domain
