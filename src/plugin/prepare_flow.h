// One Prepare of one claim, from the kubelet's call to its answer. Pure: step(event) → actions; no thread, clock, disk or API
// here.
//
//   LookUp ─▶ ReadClaim ─▶ (wait for the lease) ─▶ Begin ─▶ (wait for the node) ─▶ Announce ─▶ ReadDomain + ReadClaim ─▶ Commit
//                                                    └─ no channel ─▶ done
//
// Every pod is checked, also where another of its ComputeDomain has the channel: a view that lags may show a lease that is
// drained. Announce, then check: a number is freed by the controller only after it wrote Draining and then found it in no node's
// report, so a node that reports first and reads the lease afterwards either is seen, or sees. Everything before Begin leaves no
// trace.
#pragma once

#include <memory>
#include <optional>
#include <string>
#include <variant>
#include <vector>

#include "src/api/compute_domain.h"
#include "src/api/resource_claim.h"
#include "src/base/clock.h"
#include "src/plugin/checkpoint.h"
#include "src/plugin/claim_request.h"
#include "src/plugin/node_view.h"

namespace cd::plugin {

// A longer wait would outlive a deleted pod: the kubelet does not cancel.
inline constexpr Duration kPrepareLimit{10'000};
// Once nothing is waited for but the API's answers: failing now would cost the pod a minute.
inline constexpr Duration kOvertime{3'000};
// After that long without a lease it is worth a request to find out why.
inline constexpr Duration kExplainAfter{2'000};
inline constexpr Duration kReadRetry{500};

enum class FlowTimer { kExplain, kLimit, kRetryReads };

namespace action {
struct LookUp {};     // → LookedUp
struct ReadClaim {};  // → ClaimRead
struct ListComputeDomains {
  std::string ns;
};  // → ComputeDomainsListed
struct Begin {
  ClaimEntry entry;
  std::uint64_t sequence;
};  // → Begun
struct Announce {
  api::NodeChannel channel;
};  // → Announced
struct ReadDomain {
  std::string name;
};  // → DomainRead
struct Commit {
  std::string nonce;
};  // → Committed
struct Rollback {
  std::string nonce;
};  // no event
struct StartTimer {
  FlowTimer timer;
  Duration delay;
};  // → TimerFired
struct Finish {
  Result<std::vector<ClaimDevice>> result;
};  // the last one
}  // namespace action
using FlowAction = std::variant<action::LookUp, action::ReadClaim, action::ListComputeDomains, action::Begin, action::Announce,
                                action::ReadDomain, action::Commit, action::Rollback, action::StartTimer, action::Finish>;

namespace event {
struct Started {};
// `completed`: the claim is prepared, and its files have just been written again.
struct LookedUp {
  Result<std::optional<std::vector<ClaimDevice>>> completed;
  std::uint64_t sequence = 0;
};
struct ClaimRead {
  Result<api::ResourceClaim> claim;
};
struct ComputeDomainsListed {
  Result<std::vector<api::ComputeDomain>> domains;
};
struct Begun {
  Result<BeginOutcome> outcome;
};
struct Announced {
  Status result;
};
struct DomainRead {
  Result<api::ImexDomain> domain;
};
struct Committed {
  Status result;
};
struct ViewChanged {
  std::shared_ptr<const NodeView> view;
};
struct CheckpointChanged {};  // a withdrawal may have ended
struct TimerFired {
  FlowTimer timer;
};
struct Cancelled {
  std::string why;
};  // by the kubelet, or by an Unprepare of the claim
}  // namespace event
using FlowEvent = std::variant<event::Started, event::LookedUp, event::ClaimRead, event::ComputeDomainsListed, event::Begun,
                               event::Announced, event::DomainRead, event::Committed, event::ViewChanged,
                               event::CheckpointChanged, event::TimerFired, event::Cancelled>;

class PrepareFlow {
 public:
  struct Input {
    api::ObjectRef claim;
    std::string node;
    std::string daemon_namespace;
    std::string nonce;  // unlike any other Prepare's, of any process
    int node_slots = api::kDefaultSlots;
  };
  PrepareFlow(Input input, std::shared_ptr<const NodeView> view) : input_(std::move(input)), view_(std::move(view)) {}

  // After Finish every event is ignored.
  std::vector<FlowAction> Step(const FlowEvent& event);
  bool done() const { return std::holds_alternative<Done>(state_); }

 private:
  // Each state holds what is known in it, and no more.
  struct LookingUp {};
  struct ReadingClaim {
    std::uint64_t sequence;
  };
  struct AwaitingLease {
    std::uint64_t sequence;
    ClaimRequest request;
    bool explained;             // the reason was asked for
    std::string left_domain{};  // UID of an IMEX domain that the node is known to have left, which the view may not say yet
  };
  struct Beginning {
    std::uint64_t sequence;
    ClaimRequest request;
    std::optional<Grant> grant;
  };
  struct AwaitingWithdrawal {
    std::uint64_t sequence;
    ClaimRequest request;
    Grant grant;
  };
  struct AwaitingNode {
    std::uint64_t sequence;
    ClaimRequest request;
    Grant grant;
  };  // from here on PrepareStarted stands on disk
  struct Announcing {
    std::uint64_t sequence;
    ClaimRequest request;
    Grant grant;
  };
  struct Checking {
    ClaimRequest request;
    Grant grant;
    bool domain_good;
    bool claim_good;
  };
  struct Committing {
    ClaimRequest request;
  };
  struct Done {};
  using State = std::variant<LookingUp, ReadingClaim, AwaitingLease, Beginning, AwaitingWithdrawal, AwaitingNode, Announcing,
                             Checking, Committing, Done>;

  void On(const event::Started&);
  void On(const event::LookedUp&);
  void On(const event::ClaimRead&);
  void On(const event::ComputeDomainsListed&);
  void On(const event::Begun&);
  void On(const event::Announced&);
  void On(const event::DomainRead&);
  void On(const event::Committed&);
  void On(const event::ViewChanged&);
  void On(const event::CheckpointChanged&);
  void On(const event::TimerFired&);
  void On(const event::Cancelled&);

  Judgement JudgeNow(const ClaimRequest& request) const;
  void SeekLease();
  void SeekNode();
  void CheckFirstRead(const event::ClaimRead& read, std::uint64_t sequence);
  void Explain(const AwaitingLease& waiting);
  void BeginNow(std::uint64_t sequence, ClaimRequest request, std::optional<Grant> grant);
  void BackToTheLease(Announcing announcing);
  void CommitWhenChecked();
  bool OnTheLastMile() const;
  std::string WhatIsMissing() const;
  void FinishWith(const ClaimRequest& request);
  void FailWith(Error error);
  template <typename T>
  void Do(T action) {
    actions_.emplace_back(std::move(action));
  }

  const Input input_;
  std::shared_ptr<const NodeView> view_;
  State state_;
  bool overtime_ = false;
  std::vector<FlowAction> actions_;  // of the step under way
};

}  // namespace cd::plugin
