// Errors are values here: a message for a person, extended with context on the way up.
#pragma once

#include <cstring>
#include <string>
#include <tl/expected.hpp>
#include <utility>

namespace emu {

struct Error {
  std::string message;
};

template <class T>
using Result = tl::expected<T, Error>;

inline tl::unexpected<Error> Fail(std::string message) {
  return tl::unexpected<Error>(Error{std::move(message)});
}

// `what` followed by the text of errno; call before anything that may change errno.
inline tl::unexpected<Error> FailErrno(const std::string& what) {
  return Fail(what + ": " + std::strerror(errno));
}

}  // namespace emu
