// Writes IMEXNode.spec and wakes the node's pods as DecideNode says.
#pragma once

#include <string>

#include "src/controller/cluster.h"
#include "src/kube/events.h"

namespace cd::controller {

// Worker's thread only.
class NodeReconciler {
 public:
  NodeReconciler(World& world, Cluster& cluster, kube::WorkQueue& queue, kube::EventRecorder& events, const Clock& clock)
      : world_(world), cluster_(cluster), queue_(queue), events_(events), clock_(clock) {}

  Status Reconcile(const std::string& name);

 private:
  Status RefuseIfStale(const NodeSnapshot& snapshot);
  Status Act(const NodeSnapshot& snapshot, const NodeDecision& decision);
  void TellWithoutChannel(const WaitingClaim& claim);

  World& world_;
  Cluster& cluster_;
  kube::WorkQueue& queue_;
  kube::EventRecorder& events_;
  const Clock& clock_;
};

}  // namespace cd::controller
