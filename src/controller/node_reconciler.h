// Writes IMEXNode.spec and wakes the node's pods as DecideNode says.
#pragma once

#include <string>
#include <utility>

#include "src/controller/cluster.h"
#include "src/kube/events.h"

namespace cd::controller {

// The pods of the IMEX daemon.
struct DaemonPods {
  std::string ns;
  std::string revision;  // that should run; empty: none is ever replaced
};

// Worker's thread only.
class NodeReconciler {
 public:
  NodeReconciler(World& world, Cluster& cluster, kube::WorkQueue& queue, kube::EventRecorder& events, const Clock& clock,
                 DaemonPods daemons)
      : world_(world), cluster_(cluster), queue_(queue), events_(events), clock_(clock), daemons_(std::move(daemons)) {}

  Status Reconcile(const std::string& name);

 private:
  Status RefuseIfStale(const NodeSnapshot& snapshot);
  Status Act(const NodeSnapshot& snapshot, const NodeDecision& decision);
  Status ReplaceDaemon(const std::string& node, const std::string& pod_uid);
  void TellWithoutChannel(const WaitingClaim& claim);

  World& world_;
  Cluster& cluster_;
  kube::WorkQueue& queue_;
  kube::EventRecorder& events_;
  const Clock& clock_;
  const DaemonPods daemons_;
};

}  // namespace cd::controller
