// Tells when files in one directory change, by inotify.
#pragma once

#include <filesystem>
#include <functional>
#include <set>
#include <string>

#include "src/base/event_loop.h"
#include "src/base/fd.h"
#include "src/base/result.h"

namespace cd {

// Heals by itself: a directory that is not there yet, was replaced, or cannot be watched for now (fs.inotify.max_user_watches and
// max_user_instances are shared with everybody on the node) is tried again until it works. What kept it is logged once.
class DirectoryWatch {
 public:
  // Runs on the loop once for any number of changes at a time: one of `names` was written and closed, moved in or removed. Also
  // when watching begins late, because of the changes nobody saw. Reading a file in the handler sets nothing off.
  using Handler = std::function<void()>;

  // On the loop's thread, or while the loop does not run.
  DirectoryWatch(EventLoop& loop, std::filesystem::path directory, std::set<std::string> names, Handler handler);
  ~DirectoryWatch();
  DirectoryWatch(const DirectoryWatch&) = delete;
  DirectoryWatch& operator=(const DirectoryWatch&) = delete;

 private:
  Status Open();
  void Close();
  void TryToOpen();
  void Drain();

  EventLoop& loop_;
  const std::filesystem::path directory_;
  const std::set<std::string> names_;
  Handler handler_;
  Fd inotify_;
  TimerId retry_ = 0;
  bool blind_ = false;  // and it was said
};

}  // namespace cd
