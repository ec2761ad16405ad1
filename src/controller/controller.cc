#include "src/controller/controller.h"

#include <atomic>
#include <condition_variable>
#include <mutex>
#include <nlohmann/json.hpp>
#include <utility>

#include "src/base/log.h"
#include "src/controller/compute_domain_reconciler.h"
#include "src/controller/node_reconciler.h"
#include "src/controller/work_key.h"
#include "src/kube/informer.h"

namespace cd::controller {

using kube::ChangeType;
using kube::Informer;
using kube::InformerOptions;

namespace {

constexpr char kName[] = "compute-domain-controller";

}  // namespace

class Controller::Impl {
 public:
  Impl(kube::ApiClient& client, Executor& loop, const ControllerOptions& options)
      : queue_(loop.clock()),
        world_(queue_, loop.clock(), options.cluster),
        cluster_(client, world_),
        events_(client, loop.clock(), kName, options.instance.empty() ? kName : options.instance),
        domains_(world_, cluster_, queue_, loop.clock(), options.gone_after),
        nodes_(world_, cluster_, queue_, events_, loop.clock(), {options.ns, options.daemon_revision}),
        workloads_(client, loop.clock()),
        compute_domains_(world_, cluster_, domains_, queue_, events_, workloads_, loop.clock(), options.cluster),
        compute_domain_informer_(client, loop, {.type = api::kComputeDomains}, api::DecodeComputeDomain, options.seed + 1),
        domain_informer_(client, loop, {.type = api::kImexDomains}, api::DecodeImexDomain, options.seed + 2),
        node_informer_(client, loop, {.type = api::kImexNodes}, api::DecodeImexNode, options.seed + 3),
        claim_informer_(client, loop, {.type = api::kResourceClaims}, DecodeChannelClaim, options.seed + 4),
        template_informer_(client, loop, {.type = api::kResourceClaimTemplates, .label_selector = api::kComputeDomainLabel},
                           DecodeClaimTemplate, options.seed + 5) {}

  void StartInformers() {
    Feed(compute_domain_informer_);
    Feed(domain_informer_);
    Feed(node_informer_);
    Feed(claim_informer_);
    Feed(template_informer_);
  }

  bool Synced() const { return unsynced_ == 0; }

  void RunWorker() {
    if (!WaitForCaches()) return;
    BeginToAct();
    while (const auto key = queue_.Take()) {
      Process(*key);
      queue_.Done(*key);
    }
  }

  bool WorkOnce() {
    if (!Synced()) return false;
    BeginToAct();
    const auto key = queue_.TryTake();
    if (!key) return false;
    Process(*key);
    queue_.Done(*key);
    return true;
  }

  void Stop() {
    {
      const std::lock_guard lock(mutex_);
      stopping_ = true;
    }
    changed_.notify_all();
    queue_.ShutDown();
  }

 private:
  template <typename T>
  void Feed(Informer<T>& informer) {
    informer.AddHandler([this](ChangeType type, const typename Informer<T>::Ptr& object) {
      if (type == ChangeType::kDeleted) return world_.Remove(object);
      world_.Put(object, Source::kWatch);
    });
    informer.OnListed([this, &informer](const std::string& version) { world_.ForgetUnlisted(version, informer.objects()); });
    informer.OnSynced([this] {
      {
        const std::lock_guard lock(mutex_);
        --unsynced_;
      }
      changed_.notify_all();
    });
    informer.Start();
  }

  bool WaitForCaches() {
    std::unique_lock lock(mutex_);
    changed_.wait(lock, [this] { return stopping_ || unsynced_ == 0; });
    return !stopping_;
  }

  void BeginToAct() {
    if (std::exchange(acting_, true)) return;
    world_.BeginToAct();
    LogInfo("controller begins to act");
  }

  void Process(const std::string& key) {
    const Status done = Dispatch(key);
    if (done) return queue_.Forget(key);
    // A conflict only means that the cache was behind; the event that follows brings the key back as well.
    const LogLevel level = done.error().code == ErrorCode::kConflict ? LogLevel::kDebug : LogLevel::kWarning;
    Log(level, "will be tried again", {{"key", key}, {"error", done.error().message}});
    queue_.AddRateLimited(key);
  }

  Status Dispatch(const std::string& key) {
    const auto [kind, object] = ParseWorkKey(key);
    switch (kind) {
      case WorkKind::kImexDomain:
        return domains_.Reconcile(object.name);
      case WorkKind::kNode:
        return nodes_.Reconcile(object.name);
      case WorkKind::kComputeDomain:
        return compute_domains_.Reconcile(object);
    }
    return {};
  }

  kube::WorkQueue queue_;
  World world_;
  Cluster cluster_;
  kube::EventRecorder events_;
  DomainReconciler domains_;
  NodeReconciler nodes_;
  WorkloadReader workloads_;
  ComputeDomainReconciler compute_domains_;
  bool acting_ = false;  // worker's thread

  std::mutex mutex_;
  std::condition_variable changed_;
  bool stopping_ = false;         // guarded by mutex_
  std::atomic<int> unsynced_{5};  // informers

  // Last: their handlers use all of the above.
  Informer<api::ComputeDomain> compute_domain_informer_;
  Informer<api::ImexDomain> domain_informer_;
  Informer<api::ImexNode> node_informer_;
  Informer<ChannelClaim> claim_informer_;
  Informer<ClaimTemplate> template_informer_;
};

Controller::Controller(kube::ApiClient& client, Executor& loop, ControllerOptions options)
    : impl_(std::make_unique<Impl>(client, loop, options)) {}
Controller::~Controller() = default;

void Controller::StartInformers() {
  impl_->StartInformers();
}
bool Controller::Synced() const {
  return impl_->Synced();
}
void Controller::RunWorker() {
  impl_->RunWorker();
}
bool Controller::WorkOnce() {
  return impl_->WorkOnce();
}
void Controller::Stop() {
  impl_->Stop();
}

}  // namespace cd::controller
