// How our calls look on the wire: paths, queries, content types. Pure.
#pragma once

#include <map>
#include <string>
#include <string_view>

#include "src/kube/client.h"
#include "src/kube/http.h"

namespace cd::kube {

// Everything outside RFC 3986's unreserved characters as %XX: a name can never become another path or query.
std::string Escape(std::string_view component);

// "/apis/group/version/namespaces/ns/plural/name/subresource?query"
std::string PathOf(const api::ResourceType& type, const api::ObjectKey& key, std::string_view subresource,
                   const std::map<std::string, std::string>& query);

// Without timeouts; `token` may be empty.
HttpRequest Encode(const ApiRequest& request, std::string_view server, std::string_view token);
HttpRequest Encode(const WatchRequest& request, std::string_view server, std::string_view token);

// "update leases/status kube-system/x", the context of errors.
std::string Describe(const ApiRequest& request);

}  // namespace cd::kube
