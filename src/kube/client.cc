#include "src/kube/client.h"

#include <future>
#include <nlohmann/json.hpp>
#include <utility>

#include "src/base/json_text.h"

namespace cd::kube {
namespace {

using nlohmann::json;

// Bodies may carry strings of foreign origin (device names, messages); invalid UTF-8 must not throw.
std::string Dump(const json& value) {
  return value.dump(-1, ' ', false, json::error_handler_t::replace);
}

const std::string& MetadataText(const json& object, const char* name) {
  return TextOf(MemberOf(object, "metadata"), name);
}

bool HasPrecondition(const json& object) {
  return !MetadataText(object, "resourceVersion").empty();
}

json WithType(const api::ResourceType& type, json object) {
  object["apiVersion"] = type.ApiVersion();
  object["kind"] = type.kind;
  return object;
}

ApiRequest Patch(const api::ResourceType& type, api::ObjectKey key, const json& patch, std::string subresource,
                 PatchType patch_type) {
  ApiRequest request{.verb = Verb::kPatch, .type = type, .key = std::move(key), .subresource = std::move(subresource)};
  request.body = Dump(patch);
  request.patch_type = patch_type;
  return request;
}

}  // namespace

ApiRequest Get(const api::ResourceType& type, api::ObjectKey key) {
  return {.verb = Verb::kGet, .type = type, .key = std::move(key), .safe_to_repeat = true};
}

ApiRequest List(const api::ResourceType& type, std::string ns, std::map<std::string, std::string> query) {
  return {.verb = Verb::kList, .type = type, .key = {std::move(ns), ""}, .query = std::move(query), .safe_to_repeat = true};
}

ApiRequest Create(const api::ResourceType& type, std::string ns, const json& object) {
  return {.verb = Verb::kCreate, .type = type, .key = {std::move(ns), ""}, .body = Dump(WithType(type, object))};
}

ApiRequest Update(const api::ResourceType& type, const json& object, std::string subresource) {
  return {.verb = Verb::kUpdate,
          .type = type,
          .key = {MetadataText(object, "namespace"), MetadataText(object, "name")},
          .subresource = std::move(subresource),
          .body = Dump(WithType(type, object)),
          .safe_to_repeat = HasPrecondition(object)};
}

ApiRequest MergePatch(const api::ResourceType& type, api::ObjectKey key, const json& patch, std::string subresource) {
  ApiRequest request = Patch(type, std::move(key), patch, std::move(subresource), PatchType::kMerge);
  request.safe_to_repeat = HasPrecondition(patch);
  return request;
}

ApiRequest JsonPatch(const api::ResourceType& type, api::ObjectKey key, const json& patch, std::string subresource) {
  ApiRequest request = Patch(type, std::move(key), patch, std::move(subresource), PatchType::kJson);
  request.safe_to_repeat = patch.is_array() && !patch.empty() && TextOf(patch[0], "op") == "test";
  return request;
}

ApiRequest Apply(const api::ResourceType& type, const json& object, std::string field_manager) {
  ApiRequest request = Patch(type, {MetadataText(object, "namespace"), MetadataText(object, "name")}, WithType(type, object), "",
                             PatchType::kApply);
  request.query = {{"fieldManager", std::move(field_manager)}};
  return request;
}

ApiRequest Delete(const api::ResourceType& type, api::ObjectKey key, std::string uid_precondition, std::string rv_precondition) {
  ApiRequest request{.verb = Verb::kDelete, .type = type, .key = std::move(key)};
  json preconditions = json::object();
  if (!uid_precondition.empty()) preconditions["uid"] = std::move(uid_precondition);
  if (!rv_precondition.empty()) preconditions["resourceVersion"] = std::move(rv_precondition);
  request.safe_to_repeat = !preconditions.empty();
  if (!preconditions.empty()) {
    request.body = Dump({{"apiVersion", "v1"}, {"kind", "DeleteOptions"}, {"preconditions", std::move(preconditions)}});
  }
  return request;
}

Result<json> CallAndWait(ApiClient& client, ApiRequest request) {
  auto promise = std::make_shared<std::promise<Result<json>>>();
  std::future<Result<json>> answer = promise->get_future();
  client.Call(std::move(request), [promise = std::move(promise)](Result<json> result) { promise->set_value(std::move(result)); });
  try {
    return answer.get();
  } catch (const std::future_error&) {  // the callback was destroyed unrun
    return Fail(ErrorCode::kCancelled, "the API client was shut down");
  }
}

}  // namespace cd::kube
