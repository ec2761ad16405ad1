#include "src/plugin/dra_server.h"

#include <grpcpp/grpcpp.h>

#include <atomic>
#include <chrono>
#include <mutex>
#include <utility>

#include "src/base/log.h"
#include "src/plugin/dra_service.h"
#include "src/plugin/health_service.h"
#include "src/plugin/proto/registration.grpc.pb.h"

namespace cd::plugin {

namespace {

constexpr Duration kHealthRepeat{10'000};  // the kubelet's own limit is 30 s

class RegistrationService final : public pluginregistration::Registration::CallbackService {
 public:
  RegistrationService(std::string driver, std::string endpoint, std::function<void()> on_registered)
      : driver_(std::move(driver)), endpoint_(std::move(endpoint)), on_registered_(std::move(on_registered)) {}

  grpc::ServerUnaryReactor* GetInfo(grpc::CallbackServerContext* context, const pluginregistration::InfoRequest*,
                                    pluginregistration::PluginInfo* info) override {
    info->set_type("DRAPlugin");
    info->set_name(driver_);
    info->set_endpoint(endpoint_);
    // DRA goes by this short name, not by the service's full one.
    info->add_supported_versions("v1.DRAPlugin");
    info->add_supported_versions("v1alpha1.DRAResourceHealth");
    return Answer(context, grpc::Status::OK);
  }

  grpc::ServerUnaryReactor* NotifyRegistrationStatus(grpc::CallbackServerContext* context,
                                                     const pluginregistration::RegistrationStatus* status,
                                                     pluginregistration::RegistrationStatusResponse*) override {
    registered_ = status->plugin_registered();
    if (status->plugin_registered()) {
      LogInfo("registered with the kubelet", {{"driver", driver_}, {"endpoint", endpoint_}});
      on_registered_();
      return Answer(context, grpc::Status::OK);
    }
    LogError("the kubelet refused the registration", {{"driver", driver_}, {"error", status->error()}});
    return Answer(context, grpc::Status(grpc::StatusCode::FAILED_PRECONDITION, "registration refused: " + status->error()));
  }

  bool registered() const { return registered_; }

 private:
  static grpc::ServerUnaryReactor* Answer(grpc::CallbackServerContext* context, const grpc::Status& status) {
    auto* reactor = context->DefaultReactor();
    reactor->Finish(status);
    return reactor;
  }

  const std::string driver_;
  const std::string endpoint_;
  const std::function<void()> on_registered_;
  std::atomic<bool> registered_{false};
};

Result<std::unique_ptr<grpc::Server>> Listen(const std::filesystem::path& socket,
                                             std::initializer_list<grpc::Service*> services) {
  grpc::ServerBuilder builder;
  builder.AddListeningPort("unix:" + socket.string(), grpc::InsecureServerCredentials());
  for (grpc::Service* service : services) builder.RegisterService(service);
  auto server = builder.BuildAndStart();
  if (server == nullptr) {
    return Fail(ErrorCode::kUnavailable,
                "cannot listen on " + socket.string() + ": does its directory exist and may it be written?");
  }
  return server;
}

std::chrono::system_clock::time_point After(const Clock& clock, Duration wait) {
  return std::chrono::time_point_cast<std::chrono::system_clock::duration>(clock.WallNow()) + wait;
}

}  // namespace

class DraServer::Impl {
 public:
  Impl(DraServerOptions options, Executor& executor, DraHandler& handler)
      : options_(std::move(options)),
        executor_(executor),
        dra_(executor, handler),
        health_(executor.clock()),
        registration_(options_.driver, options_.sockets.dra.string(), [this] {
          if (options_.on_registered) executor_.Post(options_.on_registered);
        }) {}

  Status Start() {
    auto dra = Listen(options_.sockets.dra, {&dra_, &health_});
    if (!dra) return Fail(dra.error());
    dra_server_ = std::move(*dra);
    auto registration = Listen(options_.sockets.registration, {&registration_});
    if (!registration) return Fail(registration.error());
    registration_server_ = std::move(*registration);
    ArmRepeat();
    return {};
  }

  void Stop() {
    const std::lock_guard lock(stop_mutex_);
    if (std::exchange(stopped_, true)) return;
    *repeating_ = false;
    health_.EndStreams();
    if (dra_server_) dra_server_->Shutdown(After(executor_.clock(), options_.drain));
    if (registration_server_) registration_server_->Shutdown(After(executor_.clock(), Duration(1'000)));
  }

  void SetHealth(std::vector<DeviceHealth> devices) { health_.Set(std::move(devices)); }
  bool Registered() const { return registration_.registered(); }

 private:
  // The flag outlives this object: a timer may be on its way while Stop runs on another thread.
  void ArmRepeat() {
    executor_.PostAfter(kHealthRepeat, [this, repeating = repeating_] {
      if (!*repeating) return;
      health_.SendAll();
      ArmRepeat();
    });
  }

  const DraServerOptions options_;
  Executor& executor_;
  internal::DraService dra_;
  internal::HealthService health_;
  RegistrationService registration_;
  std::unique_ptr<grpc::Server> dra_server_;
  std::unique_ptr<grpc::Server> registration_server_;
  std::shared_ptr<std::atomic<bool>> repeating_ = std::make_shared<std::atomic<bool>>(true);
  std::mutex stop_mutex_;
  bool stopped_ = false;
};

Result<std::unique_ptr<DraServer>> DraServer::Start(DraServerOptions options, Executor& executor, DraHandler& handler) {
  auto impl = std::make_unique<Impl>(std::move(options), executor, handler);
  if (auto started = impl->Start(); !started) {
    impl->Stop();
    return Fail(started.error());
  }
  return std::unique_ptr<DraServer>(new DraServer(std::move(impl)));
}

DraServer::DraServer(std::unique_ptr<Impl> impl) : impl_(std::move(impl)) {}
DraServer::~DraServer() {
  impl_->Stop();
}
void DraServer::Stop() {
  impl_->Stop();
}
void DraServer::SetHealth(std::vector<DeviceHealth> devices) {
  impl_->SetHealth(std::move(devices));
}
bool DraServer::Registered() const {
  return impl_->Registered();
}

}  // namespace cd::plugin
