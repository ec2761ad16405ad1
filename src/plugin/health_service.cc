#include "src/plugin/health_service.h"

#include <chrono>
#include <optional>
#include <utility>

namespace cd::plugin::internal {

using Response = ::v1alpha1::NodeWatchResourcesResponse;

// One open stream. gRPC allows one write at a time; only the newest list waits for its turn.
class HealthService::Stream final : public grpc::ServerWriteReactor<Response> {
 public:
  explicit Stream(HealthService& service) : service_(service) {}

  void Send(Response response) {
    const std::lock_guard lock(mutex_);
    if (finished_) return;
    next_ = std::move(response);
    WriteNextLocked();
  }
  void End(const grpc::Status& status) {
    const std::lock_guard lock(mutex_);
    if (std::exchange(finished_, true)) return;
    Finish(status);
  }
  void OnWriteDone(bool ok) override {
    const std::lock_guard lock(mutex_);
    writing_ = false;
    if (ok && !finished_) {
      WriteNextLocked();
    } else if (!std::exchange(finished_, true)) {
      Finish(grpc::Status(grpc::StatusCode::UNAVAILABLE, "the stream broke"));
    }
  }
  void OnCancel() override { End(grpc::Status::CANCELLED); }
  void OnDone() override {
    service_.Remove(this);
    delete this;
  }

 private:
  void WriteNextLocked() {
    if (writing_ || !next_) return;
    current_ = std::move(*next_);
    next_.reset();
    writing_ = true;
    StartWrite(&current_);
  }

  HealthService& service_;
  std::mutex mutex_;
  Response current_;  // gRPC reads it until OnWriteDone
  std::optional<Response> next_;
  bool writing_ = false;
  bool finished_ = false;
};

grpc::ServerWriteReactor<Response>* HealthService::NodeWatchResources(grpc::CallbackServerContext*,
                                                                      const ::v1alpha1::NodeWatchResourcesRequest*) {
  auto* stream = new Stream(*this);
  const std::lock_guard lock(mutex_);
  if (ended_) {
    stream->End(grpc::Status(grpc::StatusCode::UNAVAILABLE, "this instance is ending"));
  } else {
    streams_.insert(stream);
    stream->Send(CurrentLocked());
  }
  return stream;
}

void HealthService::Set(std::vector<DeviceHealth> devices) {
  {
    const std::lock_guard lock(mutex_);
    if (devices == devices_) return;
    devices_ = std::move(devices);
  }
  SendAll();
}

void HealthService::SendAll() {
  const std::lock_guard lock(mutex_);
  const Response response = CurrentLocked();
  for (Stream* stream : streams_) stream->Send(response);
}

void HealthService::EndStreams() {
  const std::lock_guard lock(mutex_);
  ended_ = true;
  for (Stream* stream : streams_) stream->End(grpc::Status::OK);
}

Response HealthService::CurrentLocked() const {
  Response response;
  const auto now = std::chrono::duration_cast<std::chrono::seconds>(clock_.WallNow().time_since_epoch()).count();
  for (const DeviceHealth& health : devices_) {
    ::v1alpha1::DeviceHealth& out = *response.add_devices();
    out.mutable_device()->set_pool_name(health.pool);
    out.mutable_device()->set_device_name(health.device);
    out.set_health(health.healthy ? ::v1alpha1::HEALTHY : ::v1alpha1::UNHEALTHY);
    out.set_last_updated_time(now);
    out.set_message(health.message);
  }
  return response;
}

void HealthService::Remove(Stream* stream) {
  const std::lock_guard lock(mutex_);
  streams_.erase(stream);
}

}  // namespace cd::plugin::internal
