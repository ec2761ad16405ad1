// Cuts a watch's byte stream into its JSON objects: one per line, split anywhere by the network.
#pragma once

#include <cstddef>
#include <string>
#include <string_view>

#include "src/base/result.h"

namespace cd::kube {

class FrameSplitter {
 public:
  explicit FrameSplitter(std::size_t largest_frame) : largest_frame_(largest_frame) {}

  // Takes bytes. An error (a frame above the limit, however it was split) is final: the stream cannot be read on.
  Status Feed(std::string_view bytes);
  // The next whole frame without its line end, valid until the next call of either; empty when there is none. Blank lines are
  // skipped.
  std::string_view Next();

 private:
  const std::size_t largest_frame_;
  std::string buffer_;
  std::size_t taken_ = 0;       // bytes of buffer_ already handed out
  std::size_t unfinished_ = 0;  // bytes after the last line end
};

}  // namespace cd::kube
