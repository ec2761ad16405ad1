#include "src/base/result.h"

#include <gtest/gtest.h>

#include <cerrno>

namespace cd {
namespace {

TEST(Result, annotate_keeps_code_and_wait) {
  const Error error = Annotate(Error{ErrorCode::kTooManyRequests, "slow down", std::chrono::seconds(3)}, "list nodes");
  EXPECT_EQ(error.message, "list nodes: slow down");
  EXPECT_EQ(error.code, ErrorCode::kTooManyRequests);
  EXPECT_EQ(error.retry_after, std::chrono::seconds(3));
}

TEST(Result, errno_codes) {
  EXPECT_EQ(ErrnoError(ENOENT, "open x").code, ErrorCode::kNotFound);
  EXPECT_EQ(ErrnoError(EEXIST, "mkdir x").code, ErrorCode::kAlreadyExists);
  EXPECT_EQ(ErrnoError(EACCES, "open x").code, ErrorCode::kInternal);
  EXPECT_EQ(ErrnoError(EACCES, "open x").message, "open x: Permission denied");
}

TEST(Result, only_what_heals_alone_is_retryable) {
  EXPECT_TRUE((Error{ErrorCode::kUnavailable, ""}.Retryable()));
  EXPECT_TRUE((Error{ErrorCode::kInternal, "", std::chrono::seconds(1)}.Retryable()));
  EXPECT_FALSE((Error{ErrorCode::kConflict, ""}.Retryable()));
  EXPECT_FALSE((Error{ErrorCode::kInvalidArgument, ""}.Retryable()));
}

}  // namespace
}  // namespace cd
