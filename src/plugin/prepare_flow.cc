#include "src/plugin/prepare_flow.h"

#include <algorithm>

namespace cd::plugin {

namespace {

// An answer that says nothing about the object: nobody answered, or the server is in trouble.
bool Unanswered(const Error& error) {
  return error.Retryable();
}

Error Wrong(ErrorCode code, std::string message) {
  return Error{code, std::move(message), std::nullopt};
}

}  // namespace

std::vector<FlowAction> PrepareFlow::Step(const FlowEvent& event) {
  actions_.clear();
  if (!done()) std::visit([this](const auto& e) { On(e); }, event);
  return std::move(actions_);
}

void PrepareFlow::On(const event::Started&) {
  if (auto named = CheckRef(input_.claim); !named) return FailWith(named.error());
  Do(action::StartTimer{FlowTimer::kLimit, kPrepareLimit});
  Do(action::LookUp{});
}

void PrepareFlow::On(const event::LookedUp& e) {
  if (!std::holds_alternative<LookingUp>(state_)) return;
  if (!e.completed) return FailWith(e.completed.error());
  if (*e.completed) {
    state_ = Done{};
    return Do(action::Finish{**e.completed});
  }
  state_ = ReadingClaim{e.sequence};
  Do(action::ReadClaim{});
}

void PrepareFlow::On(const event::ClaimRead& e) {
  if (const auto* reading = std::get_if<ReadingClaim>(&state_)) return CheckFirstRead(e, reading->sequence);
  auto* checking = std::get_if<Checking>(&state_);
  if (checking == nullptr) return;
  // Where the API does not answer about the claim, the node lock alone decides.
  if (!e.claim && !Unanswered(e.claim.error()))
    return FailWith(Annotate(e.claim.error(), "ResourceClaim " + ToString(input_.claim)));
  if (e.claim) {
    if (auto wanted = StillWanted(*e.claim, input_.claim, input_.node); !wanted) return FailWith(wanted.error());
  }
  checking->claim_good = true;
  CommitWhenChecked();
}

void PrepareFlow::CheckFirstRead(const event::ClaimRead& e, std::uint64_t sequence) {
  if (!e.claim) return FailWith(Annotate(e.claim.error(), "ResourceClaim " + ToString(input_.claim)));
  auto request = ReadClaimRequest(*e.claim, input_.claim, input_.node, input_.daemon_namespace);
  if (!request) return FailWith(request.error());
  if (!request->channel) return BeginNow(sequence, std::move(*request), std::nullopt);
  state_ = AwaitingLease{sequence, std::move(*request), false};
  Do(action::StartTimer{FlowTimer::kExplain, kExplainAfter});
  SeekLease();
}

Judgement PrepareFlow::JudgeNow(const ClaimRequest& request) const {
  return Judge(*view_, {input_.claim, *request.channel, request.slots, request.slots >= input_.node_slots});
}

// Stays in AwaitingLease, or goes on.
void PrepareFlow::SeekLease() {
  auto& waiting = std::get<AwaitingLease>(state_);
  const Judgement judged = JudgeNow(waiting.request);
  if (const auto* denied = std::get_if<Denied>(&judged)) return FailWith(denied->error);
  if (std::holds_alternative<AwaitsLease>(judged)) return;
  const auto* granted = std::get_if<Granted>(&judged);
  Grant grant = granted != nullptr ? granted->grant : std::get<AwaitsNode>(judged).grant;
  if (!waiting.left_domain.empty() && grant.domain_uid == waiting.left_domain) return;
  const std::uint64_t sequence = waiting.sequence;
  BeginNow(sequence, std::move(waiting.request), std::move(grant));
}

void PrepareFlow::BeginNow(std::uint64_t sequence, ClaimRequest request, std::optional<Grant> grant) {
  ClaimEntry entry{input_.claim, ClaimPhase::kStarted, input_.nonce, {}, grant, request.devices};
  state_ = Beginning{sequence, std::move(request), std::move(grant)};
  Do(action::Begin{std::move(entry), sequence});
}

void PrepareFlow::On(const event::Begun& e) {
  auto* beginning = std::get_if<Beginning>(&state_);
  if (beginning == nullptr) return;
  if (!e.outcome) return FailWith(e.outcome.error());
  switch (*e.outcome) {
    case BeginOutcome::kCompleted:
    case BeginOutcome::kAlready:
      return FinishWith(beginning->request);
    case BeginOutcome::kWithdrawing:
      state_ = AwaitingWithdrawal{beginning->sequence, std::move(beginning->request), std::move(*beginning->grant)};
      return;
    case BeginOutcome::kStarted:
      state_ = AwaitingNode{beginning->sequence, std::move(beginning->request), std::move(*beginning->grant)};
      return SeekNode();
  }
}

void PrepareFlow::SeekNode() {
  auto& waiting = std::get<AwaitingNode>(state_);
  const Judgement judged = JudgeNow(waiting.request);
  if (const auto* denied = std::get_if<Denied>(&judged)) return FailWith(denied->error);
  const auto* granted = std::get_if<Granted>(&judged);
  if (granted == nullptr) return;  // a lease that is gone may be the view lagging; the limit ends the wait
  if (granted->grant != waiting.grant) {
    return FailWith(Wrong(ErrorCode::kConflict, "the ComputeDomain was given another channel while this Prepare was under way"));
  }
  const api::NodeChannel channel = waiting.grant.Reported();
  state_ = Announcing{waiting.sequence, std::move(waiting.request), std::move(waiting.grant)};
  Do(action::Announce{channel});
}

void PrepareFlow::On(const event::Announced& e) {
  auto* announcing = std::get_if<Announcing>(&state_);
  if (announcing == nullptr) return;
  if (!e.result && e.result.error().code == ErrorCode::kConflict) return BackToTheLease(std::move(*announcing));
  if (!e.result) return FailWith(Annotate(e.result.error(), "reporting the channel in IMEXNode " + input_.node));
  const std::string domain = announcing->grant.domain;
  state_ = Checking{std::move(announcing->request), std::move(announcing->grant), false, false};
  Do(action::ReadDomain{domain});
  Do(action::ReadClaim{});
}

// The node was moved out of the domain before it announced the channel. Nothing was used, and it may be given one where it is
// now.
void PrepareFlow::BackToTheLease(Announcing announcing) {
  Do(action::Rollback{input_.nonce});
  state_ = AwaitingLease{announcing.sequence, std::move(announcing.request), true, announcing.grant.domain_uid};
  SeekLease();
}

void PrepareFlow::On(const event::DomainRead& e) {
  auto* checking = std::get_if<Checking>(&state_);
  if (checking == nullptr) return;
  if (!e.domain) {
    if (!Unanswered(e.domain.error())) return FailWith(Annotate(e.domain.error(), "IMEXDomain " + checking->grant.domain));
    return Do(action::StartTimer{FlowTimer::kRetryReads, kReadRetry});
  }
  if (auto good = StillGranted(*e.domain, checking->grant); !good) return FailWith(good.error());
  checking->domain_good = true;
  CommitWhenChecked();
}

void PrepareFlow::CommitWhenChecked() {
  auto& checking = std::get<Checking>(state_);
  if (!checking.domain_good || !checking.claim_good) return;
  state_ = Committing{std::move(checking.request)};
  Do(action::Commit{input_.nonce});
}

void PrepareFlow::On(const event::Committed& e) {
  const auto* committing = std::get_if<Committing>(&state_);
  if (committing == nullptr) return;
  if (!e.result) return FailWith(e.result.error());
  FinishWith(committing->request);
}

void PrepareFlow::On(const event::ViewChanged& e) {
  view_ = e.view;
  if (auto* waiting = std::get_if<AwaitingLease>(&state_)) {
    const auto& node = view_->imex_node;
    if (!node || !node->domain || node->domain->uid != waiting->left_domain) waiting->left_domain.clear();
    return SeekLease();
  }
  if (std::holds_alternative<AwaitingNode>(state_)) return SeekNode();
}

void PrepareFlow::On(const event::CheckpointChanged&) {
  auto* waiting = std::get_if<AwaitingWithdrawal>(&state_);
  if (waiting == nullptr) return;
  state_ = AwaitingLease{waiting->sequence, std::move(waiting->request), true};
  SeekLease();
}

void PrepareFlow::On(const event::TimerFired& e) {
  if (e.timer == FlowTimer::kLimit && OnTheLastMile() && !overtime_) {
    overtime_ = true;
    return Do(action::StartTimer{FlowTimer::kLimit, kOvertime});
  }
  if (e.timer == FlowTimer::kLimit) return FailWith(Wrong(ErrorCode::kDeadlineExceeded, WhatIsMissing()));
  if (e.timer == FlowTimer::kExplain) {
    if (const auto* waiting = std::get_if<AwaitingLease>(&state_)) Explain(*waiting);
    return;
  }
  if (const auto* checking = std::get_if<Checking>(&state_); checking != nullptr && !checking->domain_good) {
    Do(action::ReadDomain{checking->grant.domain});
  }
}

// No lease for a while: the controller said no, or the ComputeDomain is not what the claim says.
void PrepareFlow::Explain(const AwaitingLease& waiting) {
  if (waiting.explained) return;
  const Judgement judged = JudgeNow(waiting.request);
  if (const auto* none = std::get_if<AwaitsLease>(&judged); none != nullptr && none->refusal) {
    return FailWith(Wrong(ErrorCode::kFailedPrecondition, none->refusal->reason + ": " + none->refusal->message));
  }
  std::get<AwaitingLease>(state_).explained = true;
  if (const auto* none = std::get_if<AwaitsLease>(&judged); none != nullptr && none->held) return;  // why is known
  Do(action::ListComputeDomains{input_.claim.ns});
}

void PrepareFlow::On(const event::ComputeDomainsListed& e) {
  const auto* waiting = std::get_if<AwaitingLease>(&state_);
  if (waiting == nullptr || !e.domains) return;  // without an answer the limit ends the wait
  const api::ChannelConfig& config = *waiting->request.channel;
  const auto found = std::find_if(e.domains->begin(), e.domains->end(),
                                  [&](const api::ComputeDomain& domain) { return domain.meta.uid == config.domain_id; });
  if (found == e.domains->end()) {
    return FailWith(Wrong(ErrorCode::kInvalidArgument,
                          "domainID: there is no ComputeDomain with UID " + config.domain_id + " in namespace \"" +
                              input_.claim.ns +
                              "\"; use the ResourceClaimTemplate of a ComputeDomain in the pod's namespace, and delete "
                              "pods and claims of a deleted ComputeDomain"));
  }
  const std::string name = ToString(found->meta.Ref());
  if (found->allocation_mode != config.allocation_mode) {
    return FailWith(Wrong(ErrorCode::kInvalidArgument, std::string("allocationMode: ") + api::ToString(config.allocation_mode) +
                                                           ", but ComputeDomain " + name + " has spec.channel.allocationMode " +
                                                           api::ToString(found->allocation_mode) +
                                                           "; use the ResourceClaimTemplate it names"));
  }
  if (found->meta.deleting)
    return FailWith(
        Wrong(ErrorCode::kFailedPrecondition, "ComputeDomain " + name + " is being deleted; delete its pods and claims as well"));
}

bool PrepareFlow::OnTheLastMile() const {
  return std::holds_alternative<Announcing>(state_) || std::holds_alternative<Checking>(state_) ||
         std::holds_alternative<Committing>(state_);
}

std::string PrepareFlow::WhatIsMissing() const {
  const ClaimRequest* request = nullptr;
  if (const auto* waiting = std::get_if<AwaitingLease>(&state_)) request = &waiting->request;
  if (const auto* waiting = std::get_if<AwaitingNode>(&state_)) request = &waiting->request;
  if (request != nullptr) {
    const Judgement judged = JudgeNow(*request);
    if (const auto* none = std::get_if<AwaitsLease>(&judged)) {
      if (none->refusal) return none->refusal->reason + ": " + none->refusal->message;
      return "not ready after 10 s: " + none->missing + "; the pod is tried again";
    }
    if (const auto* node = std::get_if<AwaitsNode>(&judged))
      return "not ready after 10 s: " + node->missing + "; the pod is tried again";
  }
  if (std::holds_alternative<AwaitingWithdrawal>(state_)) {
    return "not ready after 10 s: the end of the channel's last use is not reported to the API server yet; the pod is tried "
           "again";
  }
  if (std::holds_alternative<Committing>(state_))
    return "not ready in time: the node lock is held by another process; the pod is tried again";
  return "not ready in time: the API server does not answer; the pod is tried again";
}

void PrepareFlow::On(const event::Cancelled& e) {
  FailWith(Wrong(ErrorCode::kCancelled, e.why));
}

void PrepareFlow::FinishWith(const ClaimRequest& request) {
  std::vector<ClaimDevice> devices = request.devices;
  state_ = Done{};
  Do(action::Finish{std::move(devices)});
}

void PrepareFlow::FailWith(Error error) {
  // Harmless where nothing was recorded; where the commit is under way the lock decides which of the two came first.
  const bool recorded = !std::holds_alternative<LookingUp>(state_) && !std::holds_alternative<ReadingClaim>(state_) &&
                        !std::holds_alternative<AwaitingLease>(state_);
  state_ = Done{};
  if (recorded) Do(action::Rollback{input_.nonce});
  Do(action::Finish{Fail(std::move(error))});
}

}  // namespace cd::plugin
