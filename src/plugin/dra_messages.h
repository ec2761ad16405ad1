// Between the kubelet's messages and the driver's terms. Needs protobuf, but no gRPC.
#pragma once

#include "src/plugin/dra_server.h"
#include "src/plugin/proto/dra.pb.h"

namespace cd::plugin::internal {

namespace dra = ::k8s::io::kubelet::pkg::apis::dra::v1;

// As the kubelet wrote it: nothing in it is checked.
api::ObjectRef RefOf(const dra::Claim& claim);

// Errors become text an event can show: valid UTF-8 (else the kubelet could not read the answer at all), one line, at most 1 KiB.
void Fill(const PrepareResult& result, dra::NodePrepareResourceResponse& out);
void Fill(const Status& result, dra::NodeUnprepareResourceResponse& out);

}  // namespace cd::plugin::internal
