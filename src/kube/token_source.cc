#include "src/kube/token_source.h"

#include <utility>

#include "src/base/files.h"
#include "src/base/log.h"

namespace cd::kube {
namespace {

constexpr Duration kReadEvery{60'000};

}  // namespace

TokenSource::TokenSource(const Clock& clock, std::string fixed, std::filesystem::path file)
    : clock_(clock), file_(std::move(file)), token_(std::move(fixed)) {
  if (!file_.empty()) Read();
}

const std::string& TokenSource::Current() {
  if (!file_.empty() && clock_.Now() - read_at_ >= kReadEvery) Read();
  return token_;
}

bool TokenSource::Refused(const std::string& used) {
  if (!file_.empty() && token_ == used) Read();
  return token_ != used;
}

void TokenSource::Read() {
  read_at_ = clock_.Now();
  auto content = ReadKernelFile(file_, 64 << 10);
  if (!content) return LogWarning("token cannot be read, keeping the old one", {{"error", content.error().message}});
  while (!content->empty() && (content->back() == '\n' || content->back() == '\r')) content->pop_back();
  if (!content->empty()) token_ = *std::move(content);
}

}  // namespace cd::kube
