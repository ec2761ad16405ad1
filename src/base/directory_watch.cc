#include "src/base/directory_watch.h"

#include <sys/epoll.h>
#include <sys/inotify.h>
#include <unistd.h>

#include <cerrno>
#include <utility>

#include "src/base/log.h"

namespace cd {

namespace {

constexpr Duration kRetry{500};

}  // namespace

DirectoryWatch::DirectoryWatch(EventLoop& loop, std::filesystem::path directory, std::set<std::string> names, Handler handler)
    : loop_(loop), directory_(std::move(directory)), names_(std::move(names)), handler_(std::move(handler)) {
  TryToOpen();
}

DirectoryWatch::~DirectoryWatch() {
  loop_.Cancel(retry_);
  Close();
}

Status DirectoryWatch::Open() {
  Fd fd(::inotify_init1(IN_NONBLOCK | IN_CLOEXEC));
  if (!fd) return Fail(ErrnoError(errno, "inotify"));
  if (::inotify_add_watch(fd.get(), directory_.c_str(), IN_CLOSE_WRITE | IN_MOVED_TO | IN_DELETE | IN_MOVE_SELF | IN_ONLYDIR) <
      0) {
    return Fail(ErrnoError(errno, "watch " + directory_.string()));
  }
  inotify_ = std::move(fd);
  loop_.Watch(inotify_.get(), EPOLLIN, [this](std::uint32_t) { Drain(); });
  return {};
}

void DirectoryWatch::Close() {
  if (!inotify_) return;
  loop_.Unwatch(inotify_.get());
  inotify_.Reset();
}

void DirectoryWatch::TryToOpen() {
  if (const Status opened = Open(); !opened) {
    if (!std::exchange(blind_, true)) {
      LogError("changes of files stay unseen until they can be watched",
               {{"directory", directory_.string()}, {"error", opened.error().message}});
    }
    retry_ = loop_.PostAfter(kRetry, [this] { TryToOpen(); });
    return;
  }
  if (!std::exchange(blind_, false)) return;
  LogInfo("changes of files are seen again", {{"directory", directory_.string()}});
  handler_();
}

void DirectoryWatch::Drain() {
  alignas(inotify_event) char buffer[4096];
  bool hit = false;
  bool gone = false;
  for (ssize_t size = 0; (size = ::read(inotify_.get(), buffer, sizeof buffer)) > 0;) {
    for (const char* at = buffer; at < buffer + size;) {
      const auto* event = reinterpret_cast<const inotify_event*>(at);
      hit = hit || (event->mask & IN_Q_OVERFLOW) != 0 || (event->len > 0 && names_.contains(event->name));
      gone = gone || (event->mask & (IN_IGNORED | IN_MOVE_SELF)) != 0;
      at += sizeof(inotify_event) + event->len;
    }
  }
  if (gone) {  // removed, and with it the watch; or moved, and the watch would follow it
    Close();
    blind_ = true;
    LogWarning("a watched directory was removed or moved", {{"directory", directory_.string()}});
    retry_ = loop_.PostAfter(Duration(0), [this] { TryToOpen(); });
  }
  if (hit) handler_();
}

}  // namespace cd
