#include "src/kube/request_encoding.h"

#include <fmt/format.h>

namespace cd::kube {
namespace {

constexpr std::string_view kMethods[] = {"GET", "GET", "POST", "PUT", "PATCH", "DELETE"};
constexpr std::string_view kVerbs[] = {"get", "list", "create", "update", "patch", "delete"};
constexpr std::string_view kPatchTypes[] = {"application/merge-patch+json", "application/json-patch+json",
                                            "application/apply-patch+yaml"};

HttpRequest Request(std::string_view method, std::string_view server, const std::string& path, std::string_view token) {
  HttpRequest http;
  http.method = method;
  http.url = fmt::format("{}{}", server, path);
  // Said explicitly: the server also speaks protobuf and CBOR.
  http.headers.emplace_back("Accept: application/json");
  if (!token.empty()) http.headers.push_back(fmt::format("Authorization: Bearer {}", token));
  return http;
}

}  // namespace

std::string Escape(std::string_view component) {
  std::string out;
  for (const char c : component) {
    const bool unreserved = (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') || c == '-' || c == '.' ||
                            c == '_' || c == '~';
    if (unreserved) {
      out += c;
    } else {
      out += fmt::format("%{:02X}", static_cast<unsigned char>(c));
    }
  }
  return out;
}

std::string PathOf(const api::ResourceType& type, const api::ObjectKey& key, std::string_view subresource,
                   const std::map<std::string, std::string>& query) {
  std::string path = type.group.empty() ? "/api/" : "/apis/" + Escape(type.group) + "/";
  path += Escape(type.version);
  if (type.namespaced && !key.ns.empty()) path += "/namespaces/" + Escape(key.ns);
  path += "/" + Escape(type.plural);
  if (!key.name.empty()) path += "/" + Escape(key.name);
  if (!subresource.empty()) path += "/" + Escape(subresource);
  char separator = '?';
  for (const auto& [name, value] : query) {
    path += separator + Escape(name) + "=" + Escape(value);
    separator = '&';
  }
  return path;
}

HttpRequest Encode(const ApiRequest& request, std::string_view server, std::string_view token) {
  const auto verb = static_cast<std::size_t>(request.verb);
  HttpRequest http =
      Request(kMethods[verb], server, PathOf(request.type, request.key, request.subresource, request.query), token);
  http.body = request.body;
  if (request.verb == Verb::kPatch) {
    http.headers.push_back(fmt::format("Content-Type: {}", kPatchTypes[static_cast<std::size_t>(request.patch_type)]));
  } else if (!request.body.empty()) {
    http.headers.emplace_back("Content-Type: application/json");
  }
  return http;
}

HttpRequest Encode(const WatchRequest& request, std::string_view server, std::string_view token) {
  auto query = request.query;
  query["watch"] = "true";
  return Request("GET", server, PathOf(request.type, {request.ns, ""}, "", query), token);
}

std::string Describe(const ApiRequest& request) {
  std::string text = fmt::format("{} {}", kVerbs[static_cast<std::size_t>(request.verb)], request.type.plural);
  if (!request.subresource.empty()) text += "/" + request.subresource;
  if (!request.key.name.empty()) text += " " + ToString(request.key);
  return text;
}

}  // namespace cd::kube
