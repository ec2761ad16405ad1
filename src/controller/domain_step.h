// DecideDomain's one step, from a snapshot to a decision. For decide_domain.cc and domain_step_*.cc.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "src/controller/decide_domain.h"

namespace cd::controller {

// Two views of the clique:
//   before_  as it stands in the API, the version that a look belongs to and that the write carries as its precondition. What is
//            taken away (a slot, a channel, the domain) is judged by it: only what stood there when the list began is proved by
//            it.
//   draft_   the next version as it grows. What is given (a slot, a channel) is judged by it, so that one step gives nothing
//   twice.
// They have the same nodes and differ in the domain only.
class DomainStep {
 public:
  explicit DomainStep(const DomainSnapshot& snapshot) : in_(snapshot), before_(snapshot.clique), draft_(snapshot.clique) {}

  DomainDecision Run();

 private:
  // ---- decide_domain.cc
  const domain::Nodes* Looked() const;
  void AskForLook();
  std::optional<domain::Liveness> Verified(const std::string& uid) const;
  bool SeemsLive(const api::ObjectRef& owner) const;
  bool Begin();
  void Create();
  bool OwnerLives();
  bool OwnerIsKnown();
  bool Exclusive() const;
  bool NobodyIsLeft();
  DomainDecision Remove();
  void Members();

  // ---- domain_step_leases.cc
  void DrainOrphans();
  void DrainMoved();
  bool MayComeBack(const api::ChannelLease& lease) const;
  void Free();
  std::optional<api::Refusal> GiveChannel(const domain::Demand& demand, const api::ObjectRef& owner);
  const domain::GateView* GateOf(const std::string& uid) const;
  void LetGo();

  // ---- domain_step_demands.cc
  void GrantAndRefuse();
  std::optional<api::Refusal> Serve(const domain::Demand& demand, const api::ImexNode& node);
  std::optional<api::Refusal> ServeHere(const domain::Demand& demand, const api::ImexNode& node,
                                        const domain::ComputeDomainView& view);
  std::optional<api::Refusal> KeepOrLookUp(const domain::Demand& demand, const api::ImexNode& node);
  void RefuseTimedOut();
  bool ReadsThis(const api::ImexNode& node) const;

  const DomainSnapshot& in_;
  const domain::Clique& before_;
  domain::Clique draft_;
  DomainDecision out_;
  std::vector<api::Refusal> refusals_;
  bool rebuilt_ = false;
};

}  // namespace cd::controller
