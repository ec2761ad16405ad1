#include "src/kube/status_error.h"

#include <fmt/format.h>
#include <algorithm>
#include <array>
#include <nlohmann/json.hpp>
#include <utility>

#include "src/base/json_text.h"

namespace cd::kube {
namespace {

using nlohmann::json;

constexpr std::array<std::pair<std::string_view, ErrorCode>, 17> kReasons{{
    {"NotFound", ErrorCode::kNotFound},
    {"AlreadyExists", ErrorCode::kAlreadyExists},
    {"Conflict", ErrorCode::kConflict},
    {"Expired", ErrorCode::kExpired},
    {"Gone", ErrorCode::kExpired},
    {"Invalid", ErrorCode::kInvalidArgument},
    {"BadRequest", ErrorCode::kInvalidArgument},
    {"MethodNotAllowed", ErrorCode::kInvalidArgument},
    {"NotAcceptable", ErrorCode::kInvalidArgument},
    {"UnsupportedMediaType", ErrorCode::kInvalidArgument},
    {"RequestEntityTooLarge", ErrorCode::kInvalidArgument},
    {"Unauthorized", ErrorCode::kUnauthorized},
    {"Forbidden", ErrorCode::kForbidden},
    {"TooManyRequests", ErrorCode::kTooManyRequests},
    {"ServerTimeout", ErrorCode::kUnavailable},
    {"ServiceUnavailable", ErrorCode::kUnavailable},
    {"InternalError", ErrorCode::kUnavailable},
}};

ErrorCode CodeOfHttp(int http_code) {
  switch (http_code) {
    case 401:
      return ErrorCode::kUnauthorized;
    case 403:
      return ErrorCode::kForbidden;
    case 404:
      return ErrorCode::kNotFound;
    case 409:
      return ErrorCode::kConflict;
    case 410:
      return ErrorCode::kExpired;
    case 429:
      return ErrorCode::kTooManyRequests;
    default:
      break;
  }
  if (http_code >= 500) return ErrorCode::kUnavailable;
  return http_code >= 400 ? ErrorCode::kInvalidArgument : ErrorCode::kInternal;
}

ErrorCode CodeOf(const json& status, int http_code) {
  for (const json& cause : ArrayOf(MemberOf(status, "details"), "causes")) {
    // The server's cache has not reached our version yet: like one that is too old, only a read without version helps.
    if (TextOf(cause, "reason") == "ResourceVersionTooLarge") return ErrorCode::kExpired;
  }
  const std::string& reason = TextOf(status, "reason");
  const auto known = std::find_if(kReasons.begin(), kReasons.end(), [&](const auto& entry) { return entry.first == reason; });
  return known == kReasons.end() ? CodeOfHttp(http_code) : known->second;
}

}  // namespace

Error StatusError(const json& status, int http_code) {
  if (http_code == 200) {  // an ERROR event of a watch carries the code inside only
    const json& code = MemberOf(status, "code");
    if (code.is_number_integer()) http_code = code.get<int>();
  }
  Error error{CodeOf(status, http_code), TextOf(status, "message")};
  if (error.message.empty()) error.message = fmt::format("HTTP status {} without explanation", http_code);
  const json& seconds = MemberOf(MemberOf(status, "details"), "retryAfterSeconds");
  if (seconds.is_number_integer() && seconds.get<std::int64_t>() > 0) {
    error.retry_after = std::chrono::seconds(std::min<std::int64_t>(seconds.get<std::int64_t>(), 3600));
  }
  return error;
}

Error AnswerError(std::string_view body, int http_code) {
  return StatusError(json::parse(body.begin(), body.end(), nullptr, false), http_code);
}

bool HasCauses(std::string_view body) {
  const json status = json::parse(body.begin(), body.end(), nullptr, false);
  return !ArrayOf(MemberOf(status, "details"), "causes").empty();
}

}  // namespace cd::kube
