#include "src/plugin/dra_service.h"

#include <memory>
#include <utility>
#include <vector>

#include "src/plugin/dra_messages.h"

namespace cd::plugin::internal {

namespace {

// A call whose answers come one by one on the executor. The reactor may be gone as soon as Finish was called, so what tasks hold
// is this shared part; its members belong to the executor.
template <typename Response>
struct OpenCall {
  grpc::ServerUnaryReactor* reactor;
  Response* response;
  int open_claims;
  bool cancelled = false;
  bool finished = false;

  void Settle() {
    if (finished || open_claims > 0) return;
    finished = true;
    reactor->Finish(cancelled ? grpc::Status(grpc::StatusCode::CANCELLED, "the kubelet gave this call up") : grpc::Status::OK);
  }
};

class Reactor final : public grpc::ServerUnaryReactor {
 public:
  void OnCancelDo(std::function<void()> on_cancel) { on_cancel_ = std::move(on_cancel); }
  void OnCancel() override {
    if (on_cancel_) on_cancel_();
  }
  void OnDone() override { delete this; }

 private:
  std::function<void()> on_cancel_;  // set before the reactor is handed to gRPC
};

}  // namespace

grpc::ServerUnaryReactor* DraService::NodePrepareResources(grpc::CallbackServerContext*,
                                                           const dra::NodePrepareResourcesRequest* request,
                                                           dra::NodePrepareResourcesResponse* response) {
  auto* reactor = new Reactor;
  if (request->claims().empty()) {  // somebody's probe: answered without the executor
    reactor->Finish(grpc::Status::OK);
    return reactor;
  }
  using Call = OpenCall<dra::NodePrepareResourcesResponse>;
  auto call = std::make_shared<Call>(Call{reactor, response, request->claims_size()});
  const CallId id = next_call_++;
  reactor->OnCancelDo([this, call, id] {
    executor_.Post([this, call, id] {
      if (call->finished) return;
      call->cancelled = true;
      handler_.Cancelled(id);
    });
  });
  executor_.Post([this, call, id, request] {
    // `request` lives until Finish, and the last claim's answer may come inside the loop.
    const std::vector<dra::Claim> claims(request->claims().begin(), request->claims().end());
    for (const dra::Claim& claim : claims) {
      handler_.Prepare(id, RefOf(claim), [call, uid = claim.uid()](const PrepareResult& result) {
        Fill(result, (*call->response->mutable_claims())[uid]);
        --call->open_claims;
        call->Settle();
      });
    }
  });
  return reactor;
}

grpc::ServerUnaryReactor* DraService::NodeUnprepareResources(grpc::CallbackServerContext*,
                                                             const dra::NodeUnprepareResourcesRequest* request,
                                                             dra::NodeUnprepareResourcesResponse* response) {
  auto* reactor = new Reactor;
  if (request->claims().empty()) {
    reactor->Finish(grpc::Status::OK);
    return reactor;
  }
  using Call = OpenCall<dra::NodeUnprepareResourcesResponse>;
  auto call = std::make_shared<Call>(Call{reactor, response, request->claims_size()});
  executor_.Post([this, call, request] {
    const std::vector<dra::Claim> claims(request->claims().begin(), request->claims().end());
    for (const dra::Claim& claim : claims) {
      handler_.Unprepare(RefOf(claim), [call, uid = claim.uid()](const Status& result) {
        Fill(result, (*call->response->mutable_claims())[uid]);
        --call->open_claims;
        call->Settle();
      });
    }
  });
  return reactor;
}

}  // namespace cd::plugin::internal
