#include "src/plugin/node_driver.h"

#include <algorithm>
#include <nlohmann/json.hpp>
#include <set>
#include <utility>

#include "src/base/files.h"
#include "src/base/log.h"

namespace cd::plugin {

struct NodeDriver::Run {
  struct Waiter {
    CallId call;
    std::function<void(PrepareResult)> done;
  };

  Run(const api::ObjectRef& ref, PrepareFlow::Input input, std::shared_ptr<const NodeView> view, SteadyTime now)
      : claim(ref), flow(std::move(input), std::move(view)), began(now) {}

  const api::ObjectRef claim;
  PrepareFlow flow;
  const SteadyTime began;
  std::vector<Waiter> waiters;
  std::vector<TimerId> timers;
  // An action may answer before it returns; its event waits here until the step under way is through.
  std::deque<FlowEvent> events;
  bool stepping = false;
};

namespace {

// The claim's former user was unprepared meanwhile, or the ComputeDomain got another channel: nothing that would be news later.
bool WorthAnotherTry(const Error& error) {
  return error.code == ErrorCode::kCancelled || error.code == ErrorCode::kConflict;
}

}  // namespace

NodeDriver::NodeDriver(Executor& executor, kube::ApiClient& client, NodeState& state, const ClaimFiles& files,
                       ChannelReport& report, Options options)
    : executor_(executor),
      client_(client),
      state_(state),
      files_(files),
      report_(report),
      options_(std::move(options)),
      view_(std::make_shared<NodeView>()) {}

void NodeDriver::Prepare(CallId call, const api::ObjectRef& claim, std::function<void(PrepareResult)> done) {
  auto& run = runs_[claim.uid];
  const bool fresh = run == nullptr;
  if (fresh) {
    PrepareFlow::Input input{claim, options_.node, options_.daemon_namespace,
                             options_.instance + "-" + std::to_string(next_nonce_++), options_.slots};
    run = std::make_shared<Run>(claim, std::move(input), view_, executor_.clock().Now());
  }
  run->waiters.push_back({call, std::move(done)});
  if (fresh) Feed(RunPtr(run), event::Started{});
}

void NodeDriver::Cancelled(CallId call) {
  const auto runs = runs_;  // a run that ends leaves the map
  for (const auto& [uid, run] : runs) {
    std::vector<Run::Waiter> answered;
    std::erase_if(run->waiters, [&](Run::Waiter& waiter) {
      if (waiter.call != call) return false;
      answered.push_back(std::move(waiter));
      return true;
    });
    if (!answered.empty() && run->waiters.empty()) Feed(run, event::Cancelled{"the kubelet gave the call up"});
    for (Run::Waiter& waiter : answered) waiter.done(Fail(ErrorCode::kCancelled, "the kubelet gave the call up"));
  }
}

void NodeDriver::Unprepare(const api::ObjectRef& claim, std::function<void(Status)> done) {
  // Such a claim was never prepared, and its name must not reach a path.
  if (!IsSafePathComponent(claim.uid)) return done({});
  if (const auto run = runs_.find(claim.uid); run != runs_.end()) {
    Feed(RunPtr(run->second), event::Cancelled{"the claim was unprepared while this Prepare was under way"});
  }
  state_.Transact(
      [this, uid = claim.uid](Checkpoint& checkpoint) {
        plugin::Unprepare(checkpoint, uid);
        if (auto removed = files_.RemoveCdiSpec(uid); !removed) return removed;
        return checkpoint.lingering.contains(uid) ? Status{} : files_.RemoveMarker(uid);
      },
      [claim, done = std::move(done)](Status result) {
        if (result) {
          LogInfo("claim unprepared", {{"claim", ToString(claim)}, {"claimUID", claim.uid}});
        } else {
          LogError("cannot unprepare", {{"claim", ToString(claim)}, {"claimUID", claim.uid}, {"error", result.error().message}});
        }
        done(std::move(result));
      });
}

void NodeDriver::SetView(std::shared_ptr<const NodeView> view) {
  view_ = std::move(view);
  FeedAll(event::ViewChanged{view_});
}

void NodeDriver::CheckpointChanged() {
  FeedAll(event::CheckpointChanged{});
}

void NodeDriver::FeedAll(const FlowEvent& event) {
  const auto runs = runs_;
  for (const auto& [uid, run] : runs) Feed(run, event);
}

void NodeDriver::Feed(const RunPtr& run, FlowEvent event) {
  run->events.push_back(std::move(event));
  if (std::exchange(run->stepping, true)) return;
  while (!run->events.empty()) {
    const FlowEvent next = std::move(run->events.front());
    run->events.pop_front();
    for (const FlowAction& action : run->flow.Step(next)) {
      std::visit([&](const auto& a) { Do(run, a); }, action);
    }
  }
  run->stepping = false;
}

Status NodeDriver::WriteFiles(const Checkpoint& checkpoint, const std::string& claim_uid) const {
  const ClaimEntry* entry = FindCompleted(checkpoint, claim_uid);
  return entry == nullptr ? Status{} : files_.Write(*entry);
}

void NodeDriver::Do(const RunPtr& run, const action::LookUp&) {
  auto found = std::make_shared<event::LookedUp>();
  state_.Transact(
      [this, run, found](Checkpoint& checkpoint) -> Status {
        found->sequence = checkpoint.sequence;
        const ClaimEntry* entry = FindCompleted(checkpoint, run->claim.uid);
        if (entry == nullptr) return {};
        found->completed = entry->devices;
        return files_.Write(*entry);  // the CDI directory is emptied by a reboot, and by people
      },
      [this, run, found](const Status& result) {
        if (!result) found->completed = Fail(result.error());
        Feed(run, std::move(*found));
      });
}

void NodeDriver::Do(const RunPtr& run, const action::ReadClaim&) {
  client_.Call(kube::Get(api::kResourceClaims, {run->claim.ns, run->claim.name}), [this, run](Result<nlohmann::json> answer) {
    Feed(run, event::ClaimRead{answer ? api::DecodeResourceClaim(*answer) : Fail(answer.error())});
  });
}

void NodeDriver::Do(const RunPtr& run, const action::ListComputeDomains& action) {
  client_.Call(kube::List(api::kComputeDomains, action.ns), [this, run](Result<nlohmann::json> answer) {
    if (!answer) return Feed(run, event::ComputeDomainsListed{Fail(answer.error())});
    std::vector<api::ComputeDomain> domains;
    const auto items = answer->find("items");
    for (const nlohmann::json& item : items != answer->end() ? *items : nlohmann::json::array()) {
      // One that cannot be read is not the claim's: the API server validated what this claim could mean.
      if (auto domain = api::DecodeComputeDomain(item)) domains.push_back(std::move(*domain));
    }
    Feed(run, event::ComputeDomainsListed{std::move(domains)});
  });
}

void NodeDriver::Do(const RunPtr& run, const action::Begin& action) {
  auto outcome = std::make_shared<Result<BeginOutcome>>(BeginOutcome::kStarted);
  state_.Transact(
      [this, run, action, outcome](Checkpoint& checkpoint) -> Status {
        if (run->flow.done()) return Fail(ErrorCode::kCancelled, "cancelled before it began");
        ClaimEntry entry = action.entry;
        entry.started = executor_.clock().Now();
        *outcome = plugin::Begin(checkpoint, entry, action.sequence);
        if (!*outcome) return Fail(outcome->error());
        return WriteFiles(checkpoint, entry.claim.uid);
      },
      [this, run, outcome](const Status& result) {
        if (!result) *outcome = Fail(result.error());
        Feed(run, event::Begun{*outcome});
      });
}

void NodeDriver::Do(const RunPtr& run, const action::Announce& action) {
  report_.EnsureReported(action.channel, [this, run](Status result) { Feed(run, event::Announced{std::move(result)}); });
}

void NodeDriver::Do(const RunPtr& run, const action::ReadDomain& action) {
  client_.Call(kube::Get(api::kImexDomains, {"", action.name}), [this, run](Result<nlohmann::json> answer) {
    Feed(run, event::DomainRead{answer ? api::DecodeImexDomain(*answer) : Fail(answer.error())});
  });
}

void NodeDriver::Do(const RunPtr& run, const action::Commit& action) {
  state_.Transact(
      [this, run, nonce = action.nonce](Checkpoint& checkpoint) -> Status {
        if (run->flow.done()) return Fail(ErrorCode::kCancelled, "cancelled before the commit");
        if (auto completed = plugin::Complete(checkpoint, run->claim.uid, nonce); !completed) return completed;
        return WriteFiles(checkpoint, run->claim.uid);
      },
      [this, run](Status result) { Feed(run, event::Committed{std::move(result)}); });
}

void NodeDriver::Do(const RunPtr& run, const action::Rollback& action) {
  state_.Transact(
      [run, nonce = action.nonce](Checkpoint& checkpoint) -> Status {
        plugin::Rollback(checkpoint, run->claim.uid, nonce);
        return {};
      },
      [](const Status& result) {
        if (!result) LogWarning("a failed Prepare stays recorded until the next sweep", {{"error", result.error().message}});
      });
}

void NodeDriver::Do(const RunPtr& run, const action::StartTimer& action) {
  run->timers.push_back(executor_.PostAfter(action.delay, [this, weak = std::weak_ptr(run), timer = action.timer] {
    if (const RunPtr alive = weak.lock()) Feed(alive, event::TimerFired{timer});
  }));
}

void NodeDriver::Do(const RunPtr& run, const action::Finish& action) {
  for (const TimerId timer : run->timers) executor_.Cancel(timer);
  if (const auto it = runs_.find(run->claim.uid); it != runs_.end() && it->second == run) runs_.erase(it);
  const auto took = (executor_.clock().Now() - run->began).count();
  const std::string name = ToString(run->claim);
  PrepareResult result = std::vector<PreparedDevice>{};
  if (action.result) {
    // Once for each request, of which a claim for a whole node may have many plain devices.
    std::set<std::string> told;
    for (const ClaimDevice& device : *action.result) {
      std::vector<std::string> cdi;
      if (told.insert(device.request).second) cdi.push_back(CdiDeviceId(run->claim.uid));
      result->push_back({device.request, device.pool, device.device, device.share_id, std::move(cdi)});
    }
    LogInfo("claim prepared", {{"claim", name}, {"claimUID", run->claim.uid}, {"milliseconds", took}});
  } else {
    result = Fail(action.result.error());
    LogWarning("claim not prepared",
               {{"claim", name}, {"claimUID", run->claim.uid}, {"milliseconds", took}, {"error", result.error().message}});
  }
  if (!run->waiters.empty()) report_.PrepareEnded(run->claim.uid, !action.result && WorthAnotherTry(action.result.error()));
  for (Run::Waiter& waiter : std::exchange(run->waiters, {})) waiter.done(result);
}

}  // namespace cd::plugin
