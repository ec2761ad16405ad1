// Serves one ComputeDomain: finalizer, ResourceClaimTemplate, status, and the clean-up when it is deleted.
#pragma once

#include <map>
#include <optional>
#include <string>

#include "src/controller/cluster.h"
#include "src/controller/domain_reconciler.h"
#include "src/controller/workload_reader.h"
#include "src/kube/events.h"

namespace cd::controller {

// Worker's thread only.
class ComputeDomainReconciler {
 public:
  ComputeDomainReconciler(World& world, Cluster& cluster, DomainReconciler& domains, kube::WorkQueue& queue,
                          kube::EventRecorder& events, WorkloadReader& workloads, const Clock& clock,
                          const ClusterSettings& settings)
      : world_(world),
        cluster_(cluster),
        domains_(domains),
        queue_(queue),
        events_(events),
        workloads_(workloads),
        clock_(clock),
        settings_(settings) {}

  Status Reconcile(const api::ObjectKey& key);

 private:
  struct ForeignTemplate {
    std::string name;
    std::string owner;
    SteadyTime next_read;
  };
  // What the API server said when it refused a write. A policy's words may differ each time, and are news only now and then.
  struct Refusal {
    std::string words;
    SteadyTime next{};
  };
  // What is known of one ComputeDomain beside the API. Lost at a restart, which costs a write at most.
  struct Memory {
    std::string uid;
    bool template_deleted = false;
    bool finalizer_removed = false;
    std::optional<SteadyTime> last_write;
    std::optional<SteadyTime> differs_since;
    std::optional<ForeignTemplate> foreign;
    Refusal template_refusal;   // see TemplateView
    Refusal finalizer_refusal;  // see ComputeDomainSnapshot
    Refusal other_refusal;      // of a write about which the status can say nothing
    std::string gate_state;     // see GateState
    SteadyTime gate_since{};
  };

  Memory& MemoryOf(const api::ComputeDomain& cd);
  void LookAtGate(ComputeDomainSnapshot& snapshot, Memory& memory);
  ComputeDomainDecision Decide(ComputeDomainSnapshot& snapshot, Memory& memory) const;
  Status CreateTemplateFor(const api::ComputeDomain& cd);
  Status CreateTemplate(ComputeDomainSnapshot& snapshot, Memory& memory);
  Status AddFinalizer(ComputeDomainSnapshot& snapshot, Memory& memory);
  bool IsNews(Refusal& refusal, const Error& error) const;
  Status TellInStatus(ComputeDomainSnapshot& snapshot, Refusal& refusal, const Error& error, Memory& memory);
  void TellInEvent(const api::ComputeDomain& cd, const std::string& reason, const std::string& what, const Error& error,
                   Memory& memory);
  Status FollowForeignTemplate(const ComputeDomainSnapshot& snapshot, Memory& memory);
  Status ReadForeignTemplate(const ComputeDomainSnapshot& snapshot, Memory& memory);
  void TellRefusal(const api::ComputeDomain& before, const api::ComputeDomainStatus& written);
  Status WriteStatus(const ComputeDomainSnapshot& snapshot, const ComputeDomainDecision& decision, Memory& memory);
  Status Finish(const ComputeDomainSnapshot& snapshot, const ComputeDomainDecision& decision, Memory& memory);
  std::string OwnerOf(const api::ObjectMeta& claim_template, const api::ComputeDomain& cd) const;

  World& world_;
  Cluster& cluster_;
  DomainReconciler& domains_;
  kube::WorkQueue& queue_;
  kube::EventRecorder& events_;
  WorkloadReader& workloads_;
  const Clock& clock_;
  ClusterSettings settings_;  // with what the server turned out to know
  std::map<api::ObjectKey, Memory> memory_;
};

}  // namespace cd::controller
