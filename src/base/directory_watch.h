// Tells when files in one directory change, by inotify.
#pragma once

#include <filesystem>
#include <functional>
#include <memory>
#include <set>
#include <string>

#include "src/base/event_loop.h"
#include "src/base/fd.h"
#include "src/base/result.h"

namespace cd {

class DirectoryWatch {
 public:
  // Runs on the loop once for any number of changes at a time: one of `names` was written and closed, moved in or removed.
  // Reading it in the handler sets nothing off.
  using Handler = std::function<void()>;

  static Result<std::unique_ptr<DirectoryWatch>> Create(EventLoop& loop, const std::filesystem::path& directory,
                                                        std::set<std::string> names, Handler handler);
  ~DirectoryWatch();  // on the loop's thread, or while the loop does not run
  DirectoryWatch(const DirectoryWatch&) = delete;
  DirectoryWatch& operator=(const DirectoryWatch&) = delete;

 private:
  DirectoryWatch(EventLoop& loop, Fd fd, std::set<std::string> names, Handler handler);
  void Drain();

  EventLoop& loop_;
  Fd fd_;
  const std::set<std::string> names_;
  Handler handler_;
};

}  // namespace cd
