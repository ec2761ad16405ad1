#include "src/base/directory_watch.h"

#include <sys/epoll.h>
#include <sys/inotify.h>
#include <unistd.h>

#include <cerrno>
#include <utility>

namespace cd {

Result<std::unique_ptr<DirectoryWatch>> DirectoryWatch::Create(EventLoop& loop, const std::filesystem::path& directory,
                                                               std::set<std::string> names, Handler handler) {
  Fd fd(::inotify_init1(IN_NONBLOCK | IN_CLOEXEC));
  if (!fd) return Fail(ErrnoError(errno, "inotify"));
  if (::inotify_add_watch(fd.get(), directory.c_str(), IN_CLOSE_WRITE | IN_MOVED_TO | IN_DELETE | IN_ONLYDIR) < 0) {
    return Fail(ErrnoError(errno, "watch " + directory.string()));
  }
  return std::unique_ptr<DirectoryWatch>(new DirectoryWatch(loop, std::move(fd), std::move(names), std::move(handler)));
}

DirectoryWatch::DirectoryWatch(EventLoop& loop, Fd fd, std::set<std::string> names, Handler handler)
    : loop_(loop), fd_(std::move(fd)), names_(std::move(names)), handler_(std::move(handler)) {
  loop_.Watch(fd_.get(), EPOLLIN, [this](std::uint32_t) { Drain(); });
}

DirectoryWatch::~DirectoryWatch() {
  loop_.Unwatch(fd_.get());
}

void DirectoryWatch::Drain() {
  alignas(inotify_event) char buffer[4096];
  bool hit = false;
  for (ssize_t size = 0; (size = ::read(fd_.get(), buffer, sizeof buffer)) > 0;) {
    for (const char* at = buffer; at < buffer + size;) {
      const auto* event = reinterpret_cast<const inotify_event*>(at);
      hit = hit || (event->mask & IN_Q_OVERFLOW) != 0 || (event->len > 0 && names_.contains(event->name));
      at += sizeof(inotify_event) + event->len;
    }
  }
  if (hit) handler_();
}

}  // namespace cd
