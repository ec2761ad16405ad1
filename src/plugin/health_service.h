// The device health stream behind DraServer. Brings gRPC with it.
#pragma once

#include <grpcpp/grpcpp.h>

#include <memory>
#include <mutex>
#include <set>
#include <vector>

#include "src/base/clock.h"
#include "src/plugin/dra_server.h"
#include "src/plugin/proto/health.grpc.pb.h"

namespace cd::plugin::internal {

class HealthService final : public ::v1alpha1::DRAResourceHealth::CallbackService {
 public:
  explicit HealthService(const Clock& clock) : clock_(clock) {}

  grpc::ServerWriteReactor<::v1alpha1::NodeWatchResourcesResponse>* NodeWatchResources(
      grpc::CallbackServerContext* context, const ::v1alpha1::NodeWatchResourcesRequest* request) override;

  // Any thread.
  void Set(std::vector<DeviceHealth> devices);
  void SendAll();
  void EndStreams();

 private:
  class Stream;
  ::v1alpha1::NodeWatchResourcesResponse CurrentLocked() const;
  void Remove(Stream* stream);

  const Clock& clock_;
  std::mutex mutex_;  // guards all below; taken before a stream's own mutex, never after it
  std::vector<DeviceHealth> devices_;
  std::set<Stream*> streams_;
  bool ended_ = false;
};

}  // namespace cd::plugin::internal
