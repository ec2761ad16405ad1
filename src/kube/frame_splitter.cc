#include "src/kube/frame_splitter.h"

#include <fmt/format.h>

namespace cd::kube {

Status FrameSplitter::Feed(std::string_view bytes) {
  buffer_.erase(0, taken_);
  taken_ = 0;
  if (buffer_.empty()) buffer_.shrink_to_fit();  // one huge event must not stay reserved for the life of the watch
  buffer_.append(bytes);
  // Only the new bytes can end a line: what stood there was looked at when it came.
  for (std::size_t at = buffer_.size() - bytes.size(); at < buffer_.size(); ++at) {
    if (buffer_[at] == '\n')
      unfinished_ = 0;
    else if (++unfinished_ > largest_frame_)
      return Fail(ErrorCode::kInternal, fmt::format("a watch event is larger than {} bytes", largest_frame_));
  }
  return {};
}

std::string_view FrameSplitter::Next() {
  for (;;) {
    const std::size_t end = buffer_.find('\n', taken_);
    if (end == std::string::npos) return {};
    std::string_view frame(buffer_.data() + taken_, end - taken_);
    taken_ = end + 1;
    if (!frame.empty() && frame.back() == '\r') frame.remove_suffix(1);
    if (!frame.empty()) return frame;
  }
}

}  // namespace cd::kube
