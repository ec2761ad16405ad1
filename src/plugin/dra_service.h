// gRPC services behind DraServer. Included by dra_server.cc and dra_service.cc alone: it brings gRPC with it.
#pragma once

#include <grpcpp/grpcpp.h>

#include <atomic>
#include <functional>

#include "src/base/executor.h"
#include "src/plugin/dra_server.h"
#include "src/plugin/proto/dra.grpc.pb.h"

namespace cd::plugin::internal {

namespace dra = ::k8s::io::kubelet::pkg::apis::dra::v1;

class DraService final : public dra::DRAPlugin::CallbackService {
 public:
  DraService(Executor& executor, DraHandler& handler) : executor_(executor), handler_(handler) {}

  grpc::ServerUnaryReactor* NodePrepareResources(grpc::CallbackServerContext* context,
                                                 const dra::NodePrepareResourcesRequest* request,
                                                 dra::NodePrepareResourcesResponse* response) override;
  grpc::ServerUnaryReactor* NodeUnprepareResources(grpc::CallbackServerContext* context,
                                                   const dra::NodeUnprepareResourcesRequest* request,
                                                   dra::NodeUnprepareResourcesResponse* response) override;

 private:
  Executor& executor_;
  DraHandler& handler_;
  std::atomic<CallId> next_call_{1};
};

}  // namespace cd::plugin::internal
