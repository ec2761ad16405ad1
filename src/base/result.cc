#include "src/base/result.h"

#include <fmt/format.h>
#include <cerrno>
#include <system_error>

namespace cd {

std::string_view ToString(ErrorCode code) {
  switch (code) {
    case ErrorCode::kInvalidArgument:
      return "InvalidArgument";
    case ErrorCode::kNotFound:
      return "NotFound";
    case ErrorCode::kAlreadyExists:
      return "AlreadyExists";
    case ErrorCode::kConflict:
      return "Conflict";
    case ErrorCode::kExpired:
      return "Expired";
    case ErrorCode::kUnauthorized:
      return "Unauthorized";
    case ErrorCode::kForbidden:
      return "Forbidden";
    case ErrorCode::kTooManyRequests:
      return "TooManyRequests";
    case ErrorCode::kUnavailable:
      return "Unavailable";
    case ErrorCode::kDeadlineExceeded:
      return "DeadlineExceeded";
    case ErrorCode::kCancelled:
      return "Cancelled";
    case ErrorCode::kFailedPrecondition:
      return "FailedPrecondition";
    case ErrorCode::kInternal:
      return "Internal";
  }
  return "Unknown";
}

bool Error::Retryable() const {
  switch (code) {
    case ErrorCode::kUnauthorized:  // tokens rotate
    case ErrorCode::kTooManyRequests:
    case ErrorCode::kUnavailable:
    case ErrorCode::kDeadlineExceeded:
    case ErrorCode::kFailedPrecondition:
      return true;
    default:
      return retry_after.has_value();
  }
}

Error Annotate(Error error, std::string_view context) {
  error.message = fmt::format("{}: {}", context, error.message);
  return error;
}

Error ErrnoError(int errno_value, std::string_view what) {
  ErrorCode code = ErrorCode::kInternal;
  if (errno_value == ENOENT) code = ErrorCode::kNotFound;
  if (errno_value == EEXIST) code = ErrorCode::kAlreadyExists;
  // std::generic_category() is thread-safe, strerror() is not.
  return Error{code, fmt::format("{}: {}", what, std::generic_category().message(errno_value))};
}

}  // namespace cd
