#include "src/kube/leader_election.h"

#include <nlohmann/json.hpp>
#include <utility>

#include "src/base/log.h"
#include "src/base/rng.h"
#include "src/kube/lease_record.h"

namespace cd::kube {

using nlohmann::json;

class LeaderElector::Impl : public std::enable_shared_from_this<Impl> {
 public:
  Impl(ApiClient& client, Executor& executor, LeaderElectionOptions options, Callbacks callbacks, std::uint64_t seed)
      : client_(client), executor_(executor), options_(std::move(options)), callbacks_(std::move(callbacks)), rng_(seed) {}

  void Start() { Try(); }

  void Stop() {
    stopped_ = true;
    leads_until_ = SteadyTime::min();
    executor_.Cancel(retry_);
    executor_.Cancel(deadline_);
  }

  bool IsLeader() const { return executor_.clock().Now() < leads_until_.load(); }

  void Release(std::function<void()> done);

 private:
  // One attempt to take or renew. The lease as we last saw it is written at once; only a conflict makes us read.
  void Try();
  void Read();
  void Write();
  void OnRead(Result<json> lease);
  void OnWritten(SteadyTime sent, Result<json> lease);
  void Again();
  void Lead(SteadyTime since);
  void Lose();
  void Call(ApiRequest request, std::function<void(Impl&, Result<json>)> then);
  ApiRequest WriteRequest(const LeaseRecord& record) const;

  ApiClient& client_;
  Executor& executor_;
  const LeaderElectionOptions options_;
  const Callbacks callbacks_;
  Rng rng_;
  json lease_;  // as last seen; null: it does not exist
  LeaseObservation observed_;
  std::string told_holder_;
  std::atomic<SteadyTime> leads_until_{SteadyTime::min()};
  bool leading_ = false;
  bool stopped_ = false;
  TimerId retry_ = 0;
  TimerId deadline_ = 0;
};

void LeaderElector::Impl::Call(ApiRequest request, std::function<void(Impl&, Result<json>)> then) {
  request.timeout = options_.renew_deadline / 2;  // one hanging request must not cost the lease
  client_.Call(std::move(request), [weak = weak_from_this(), then = std::move(then)](Result<json> answer) {
    auto self = weak.lock();
    if (self && !self->stopped_) then(*self, std::move(answer));
  });
}

void LeaderElector::Impl::Try() {
  if (leading_) return Write();
  Read();
}

void LeaderElector::Impl::Read() {
  Call(Get(api::kLeases, options_.lease), [](Impl& self, Result<json> lease) { self.OnRead(std::move(lease)); });
}

void LeaderElector::Impl::OnRead(Result<json> lease) {
  const SteadyTime now = executor_.clock().Now();
  if (!lease && lease.error().code != ErrorCode::kNotFound) {
    LogWarning("lease cannot be read", {{"lease", options_.lease.name}, {"error", lease.error().message}});
    return Again();
  }
  lease_ = lease ? *std::move(lease) : json();
  observed_.See(lease_.is_null() ? LeaseRecord{} : DecodeLease(lease_), now);
  if (observed_.Takeable(options_.identity, now)) return Write();
  if (leading_) return Lose();  // somebody else has it
  if (std::exchange(told_holder_, observed_.record().holder) != observed_.record().holder) {
    LogInfo("another replica leads", {{"lease", options_.lease.name}, {"holder", observed_.record().holder}});
  }
  Again();
}

ApiRequest LeaderElector::Impl::WriteRequest(const LeaseRecord& record) const {
  json lease = lease_.is_null() ? json::object() : lease_;
  EncodeLease(record, lease);
  if (!lease_.is_null()) return Update(api::kLeases, lease);
  lease["metadata"] = {{"name", options_.lease.name}, {"namespace", options_.lease.ns}};
  return Create(api::kLeases, options_.lease.ns, lease);
}

void LeaderElector::Impl::Write() {
  const LeaseRecord record = Renewed(observed_.record(), options_.identity, options_.lease_duration, executor_.clock().WallNow());
  Call(WriteRequest(record),
       [sent = executor_.clock().Now()](Impl& self, Result<json> lease) { self.OnWritten(sent, std::move(lease)); });
}

void LeaderElector::Impl::OnWritten(SteadyTime sent, Result<json> lease) {
  if (lease) {
    lease_ = *std::move(lease);
    observed_.See(DecodeLease(lease_), executor_.clock().Now());
    Lead(sent);
    if (!stopped_) Again();
    return;
  }
  const ErrorCode code = lease.error().code;
  const bool outdated = code == ErrorCode::kConflict || code == ErrorCode::kNotFound || code == ErrorCode::kAlreadyExists;
  // A leader looks at once who changed the lease; candidates that lost the race just wait.
  if (leading_ && outdated) return Read();
  if (!outdated) LogWarning("lease cannot be written", {{"lease", options_.lease.name}, {"error", lease.error().message}});
  Again();
}

void LeaderElector::Impl::Again() {
  // Spread, so that candidates do not run against each other for ever.
  const Duration delay = leading_ ? options_.retry_period : rng_.Between(options_.retry_period, options_.retry_period * 11 / 5);
  retry_ = executor_.PostAfter(delay, [weak = weak_from_this()] {
    if (auto self = weak.lock(); self && !self->stopped_) self->Try();
  });
}

// Others count from when they see the write, we from before it was sent: our end always comes first.
void LeaderElector::Impl::Lead(SteadyTime since) {
  leads_until_ = since + options_.renew_deadline;
  executor_.Cancel(deadline_);
  deadline_ = executor_.PostAfter(leads_until_.load() - executor_.clock().Now(), [weak = weak_from_this()] {
    if (auto self = weak.lock(); self && !self->stopped_) self->Lose();
  });
  if (std::exchange(leading_, true)) return;
  LogInfo("leading", {{"lease", options_.lease.name}, {"identity", options_.identity}});
  callbacks_.on_started();
}

void LeaderElector::Impl::Lose() {
  Stop();
  LogError("leadership lost", {{"lease", options_.lease.name}, {"holder", observed_.record().holder}});
  callbacks_.on_lost();
}

void LeaderElector::Impl::Release(std::function<void()> done) {
  const bool held = IsLeader();
  Stop();
  if (!held) return executor_.Post(std::move(done));
  ApiRequest request = WriteRequest(Released(observed_.record(), executor_.clock().WallNow()));
  request.timeout = options_.renew_deadline / 2;
  client_.Call(std::move(request), [done = std::move(done)](Result<json> answer) {
    if (!answer) LogWarning("lease cannot be released, it will expire", {{"error", answer.error().message}});
    done();
  });
}

LeaderElector::LeaderElector(ApiClient& client, Executor& executor, LeaderElectionOptions options, Callbacks callbacks,
                             std::uint64_t seed)
    : impl_(std::make_shared<Impl>(client, executor, std::move(options), std::move(callbacks), seed)) {}

LeaderElector::~LeaderElector() {
  impl_->Stop();
}
void LeaderElector::Start() {
  impl_->Start();
}
void LeaderElector::Release(std::function<void()> done) {
  impl_->Release(std::move(done));
}
bool LeaderElector::IsLeader() const {
  return impl_->IsLeader();
}

}  // namespace cd::kube
