// metav1.Status of the API server as our Error. One place decides what each reason means to a caller.
#pragma once

#include <nlohmann/json_fwd.hpp>
#include <string_view>

#include "src/base/result.h"

namespace cd::kube {

// `status` may be anything the server sent (HTML of a proxy, null); `http_code` decides when it says no reason.
Error StatusError(const nlohmann::json& status, int http_code);
// The same for a body as it came.
Error AnswerError(std::string_view body, int http_code);
// It names the fields that are wrong, as validation does.
bool HasCauses(std::string_view body);

}  // namespace cd::kube
