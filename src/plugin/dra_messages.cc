#include "src/plugin/dra_messages.h"

#include "src/base/text.h"

namespace cd::plugin::internal {

namespace {

// The API server cuts an event's message there.
constexpr std::size_t kLongestError = 1024;

std::string Shown(const Error& error) {
  return Printable(error.message, kLongestError);
}

}  // namespace

api::ObjectRef RefOf(const dra::Claim& claim) {
  return {claim.namespace_(), claim.name(), claim.uid()};
}

void Fill(const PrepareResult& result, dra::NodePrepareResourceResponse& out) {
  out.Clear();  // a claim that was asked for twice has one answer
  if (!result) {
    out.set_error(Shown(result.error()));
    return;
  }
  for (const PreparedDevice& device : *result) {
    dra::Device& answer = *out.add_devices();
    answer.add_request_names(device.request.substr(0, device.request.find('/')));
    answer.set_pool_name(device.pool);
    answer.set_device_name(device.device);
    for (const std::string& id : device.cdi_ids) answer.add_cdi_device_ids(id);
    if (device.share_id) answer.set_share_id(*device.share_id);
  }
}

void Fill(const Status& result, dra::NodeUnprepareResourceResponse& out) {
  if (!result) out.set_error(Shown(result.error()));
}

}  // namespace cd::plugin::internal
