#include "tests/simulation/memory_disk.h"

#include <utility>

namespace cd::simulation {

namespace {

class HeldLock final : public DiskLock {
 public:
  HeldLock(std::shared_ptr<DiskContent> content, std::string path, bool counts)
      : content_(std::move(content)), path_(std::move(path)), counts_(counts) {}
  ~HeldLock() override {
    if (counts_) content_->locks.erase(path_);
  }

 private:
  std::shared_ptr<DiskContent> content_;
  std::string path_;
  bool counts_;
};

Status Refusal(const DiskContent& content, const std::filesystem::path& path, bool writes) {
  if (content.fault == DiskFault::kFull && writes) {
    return Fail(ErrorCode::kInternal, "write " + path.string() + ": No space left on device");
  }
  if (content.fault == DiskFault::kReadOnlyCdi && path.string().starts_with("/cdi/")) {
    return Fail(ErrorCode::kInternal, "change " + path.string() + ": Read-only file system");
  }
  return {};
}

}  // namespace

Result<std::string> MemoryDisk::Read(const std::filesystem::path& path, std::size_t max_bytes) {
  Pause();
  const auto it = content_->files.find(path.string());
  if (it == content_->files.end()) return Fail(ErrorCode::kNotFound, "open " + path.string() + ": No such file or directory");
  if (it->second.size() > max_bytes) return Fail(ErrorCode::kInvalidArgument, "read " + path.string() + ": too large");
  return it->second;
}

Status MemoryDisk::Replace(const std::filesystem::path& path, std::string_view content, mode_t) {
  Pause();
  if (auto refused = Refusal(*content_, path, true); !refused) return refused;
  std::string text(content);
  if (corrupt_write) corrupt_write(path.string(), text);
  content_->files[path.string()] = std::move(text);
  if (content_->on_change) content_->on_change(path.string());
  Pause();
  return {};
}

Status MemoryDisk::Remove(const std::filesystem::path& path) {
  Pause();
  if (auto refused = Refusal(*content_, path, false); !refused && content_->files.contains(path.string())) return refused;
  if (content_->files.erase(path.string()) > 0) Pause();
  return {};
}

Status MemoryDisk::Rename(const std::filesystem::path& from, const std::filesystem::path& to) {
  Pause();
  if (auto refused = Refusal(*content_, to, false); !refused) return refused;
  const auto it = content_->files.find(from.string());
  if (it == content_->files.end()) return Fail(ErrorCode::kNotFound, "rename " + from.string());
  content_->files[to.string()] = std::move(it->second);
  content_->files.erase(it);
  return {};
}

bool MemoryDisk::Exists(const std::filesystem::path& path) {
  Pause();
  return content_->files.contains(path.string());
}

std::vector<std::string> MemoryDisk::Names(const std::filesystem::path& directory) {
  Pause();
  const std::string prefix = directory.string() + "/";
  std::vector<std::string> names;
  for (auto it = content_->files.lower_bound(prefix); it != content_->files.end() && it->first.starts_with(prefix); ++it) {
    std::string name = it->first.substr(prefix.size());
    if (name.find('/') == std::string::npos) names.push_back(std::move(name));
  }
  return names;
}

Result<std::unique_ptr<DiskLock>> MemoryDisk::TryLock(const std::filesystem::path& path) {
  Pause();
  const bool free = content_->locks.insert(path.string()).second;
  if (!free && !ignore_locks) return nullptr;
  return std::make_unique<HeldLock>(content_, path.string(), free);
}

}  // namespace cd::simulation
