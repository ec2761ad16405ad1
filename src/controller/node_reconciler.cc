#include "src/controller/node_reconciler.h"

#include "src/base/log.h"
#include "src/controller/work_key.h"

namespace cd::controller {

namespace {

constexpr Duration kLookAtDaemonAgain{10'000};

}  // namespace

Status NodeReconciler::Reconcile(const std::string& name) {
  std::map<std::string, domain::Liveness> verified;
  while (true) {
    auto snapshot = world_.SnapshotNode(name);
    if (!snapshot) return {};
    snapshot->known.verified = verified;
    snapshot->daemon_revision = daemons_.revision;
    const NodeDecision decision = DecideNode(*snapshot);
    if (!decision.NeedsReads()) return Act(*snapshot, decision);
    for (const api::ObjectRef& owner : decision.verify) {
      const auto liveness = cluster_.ReadLiveness(owner);
      if (!liveness) return Fail(liveness.error());
      verified[owner.uid] = *liveness;
    }
    for (const LookUp& look_up : decision.look_up) {
      const auto liveness = cluster_.LookUpLiveness(look_up);
      if (!liveness) return Fail(liveness.error());
      verified[look_up.uid] = *liveness;
    }
  }
}

// A place given or taken by an old view of the IMEXDomain would start a second daemon on an index, or stop one under its
// workloads. With the version as precondition of the write: whoever changes a node's membership afterwards writes its IMEXNode as
// well.
Status NodeReconciler::RefuseIfStale(const NodeSnapshot& snapshot) {
  if (!snapshot.clique) return {};
  const auto newest = cluster_.IsNewest(snapshot.clique->name, domain::VersionOf(*snapshot.clique));
  if (!newest) return Fail(newest.error());
  if (!*newest) return Fail(ErrorCode::kConflict, "IMEXDomain " + snapshot.clique->name + " has changed since it was read");
  return {};
}

Status NodeReconciler::Act(const NodeSnapshot& snapshot, const NodeDecision& decision) {
  const std::string& name = snapshot.node->meta.name;
  if (decision.write) {
    const bool moves = decision.domain != snapshot.node->domain;
    if (moves) {
      if (auto ok = RefuseIfStale(snapshot); !ok) return ok;
    }
    if (auto ok = cluster_.WriteNodeSpec(*snapshot.node, decision, moves); !ok) {
      return Fail(Annotate(ok.error(), "write spec of IMEXNode"));
    }
    LogInfo("node is told its place", {{"node", name},
                                       {"imexDomain", decision.domain ? decision.domain->name : ""},
                                       {"index", decision.domain ? decision.domain->index : -1},
                                       {"refusals", decision.refusals.size()},
                                       {"exemptions", decision.exemptions.size()},
                                       {"maintenance", decision.maintenance}});
  }
  if (!decision.delete_pod.empty()) {
    if (auto ok = ReplaceDaemon(name, decision.delete_pod); !ok) return ok;
  }
  for (const api::ObjectRef& pod : decision.wake) {
    if (auto ok = cluster_.Wake(pod, FormatMicroTime(clock_.WallNow())); !ok)
      return Fail(Annotate(ok.error(), "wake pod " + pod.name));
    LogInfo("pod is woken: its node can serve it now", {{"node", name}, {"namespace", pod.ns}, {"pod", pod.name}});
  }
  for (const WaitingClaim& claim : decision.without_channel) TellWithoutChannel(claim);
  world_.Remember(decision.states);
  // A moment later than the limit, so that the look is past it.
  if (decision.again) queue_.AddAfter(NodeKey(name), *decision.again + Duration{50});
  return {};
}

// Repeated until the node reports another pod: the answer may have been lost, and no event need follow.
Status NodeReconciler::ReplaceDaemon(const std::string& node, const std::string& pod_uid) {
  const auto deleted = cluster_.DeleteDaemonPod(daemons_.ns, node, pod_uid);
  if (!deleted) return Fail(deleted.error());
  if (*deleted)
    LogInfo("IMEX daemon of an idle node is replaced", {{"node", node}, {"uid", pod_uid}, {"revision", daemons_.revision}});
  queue_.AddAfter(NodeKey(node), kLookAtDaemonAgain);
  return {};
}

// A silent fall-back is the worst outcome: whoever looks at the pod must see it.
void NodeReconciler::TellWithoutChannel(const WaitingClaim& claim) {
  for (const api::ObjectRef& pod : claim.pods) {
    LogInfo("pod runs without a channel: its node has no fabric",
            {{"node", claim.demand.node}, {"namespace", pod.ns}, {"pod", pod.name}, {"uid", claim.demand.config.domain_id}});
    events_.Record(
        {.type = api::kPods,
         .object = pod,
         .severity = kube::EventType::kWarning,
         .reason = "NoChannel",
         .action = "Prepare",
         .note = "node " + claim.demand.node +
                 " has no multi-node NVLink, and the ComputeDomain has fabricPolicy Optional: the pod runs without an IMEX "
                 "channel (environment variable NVIDIA_COMPUTE_DOMAIN_FABRIC=false)"});
  }
}

}  // namespace cd::controller
