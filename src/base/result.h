// Errors are values. A user-visible message says field, value and remedy; context is added on the way up by Annotate.
#pragma once

#include <chrono>
#include <optional>
#include <string>
#include <string_view>
#include <tl/expected.hpp>
#include <utility>

namespace cd {

enum class ErrorCode {
  kInvalidArgument,  // the caller's input is wrong: repeating it cannot help
  kNotFound,
  kAlreadyExists,
  kConflict,  // a precondition (resourceVersion, uid, test) did not hold: re-read and redo the computation
  kExpired,   // 410: the resourceVersion or continue token is too old
  kUnauthorized,
  kForbidden,
  kTooManyRequests,
  kUnavailable,  // nobody answered, or a 5xx
  kDeadlineExceeded,
  kCancelled,
  kFailedPrecondition,  // the world is not (yet) in the state this needs
  kInternal,
};

std::string_view ToString(ErrorCode code);

struct Error {
  ErrorCode code = ErrorCode::kInternal;
  std::string message;
  // What the server asked for (Retry-After); empty when it said nothing.
  std::optional<std::chrono::milliseconds> retry_after = std::nullopt;
  // Nobody listened at the address: the request certainly had no effect.
  bool not_sent = false;

  // True when the same request may succeed later without anybody changing it.
  bool Retryable() const;
};

template <typename T>
using Result = tl::expected<T, Error>;
using Status = Result<void>;

inline tl::unexpected<Error> Fail(ErrorCode code, std::string message) {
  return tl::unexpected<Error>(Error{code, std::move(message)});
}
inline tl::unexpected<Error> Fail(Error error) {
  return tl::unexpected<Error>(std::move(error));
}

// "context: message", code kept.
Error Annotate(Error error, std::string_view context);
// kInternal (or kNotFound for ENOENT, kAlreadyExists for EEXIST) with "what: strerror(errno)".
Error ErrnoError(int errno_value, std::string_view what);

}  // namespace cd
