#include "emulator/base/json_stream.h"

#include <sys/epoll.h>
#include <sys/socket.h>

#include <cerrno>
#include <cstring>
#include <nlohmann/json.hpp>

namespace emu {
namespace {

// Longer lines, or more unsent data, mean a broken or hostile peer.
constexpr size_t kMaxPending = 4U << 20;

}  // namespace

JsonStream::JsonStream(EventLoop& loop, UniqueFd socket, OnMessage on_message, OnClosed on_closed)
    : loop_(loop),
      socket_(std::move(socket)),
      on_message_(std::make_shared<OnMessage>(std::move(on_message))),
      on_closed_(std::move(on_closed)) {
  loop_.Watch(socket_.get(), EPOLLIN, [this](uint32_t events) { OnEvents(events); });
}

JsonStream::~JsonStream() {
  *alive_ = false;
  // A last message ("shutting down") is worth one try.
  if (!failed_ && !out_.empty()) Flush();
  loop_.Forget(socket_.get());
}

void JsonStream::Send(const nlohmann::json& value) {
  if (failed_) return;
  // Text from outside may be no UTF-8; replaced rather than thrown about.
  out_ += value.dump(-1, ' ', false, nlohmann::json::error_handler_t::replace);
  out_ += '\n';
  const bool ok = out_.size() <= kMaxPending && Flush();
  // A failure surfaces from the loop, where callers expect it.
  loop_.Change(socket_.get(), ok && out_.empty() ? EPOLLIN : EPOLLIN | EPOLLOUT);
}

void JsonStream::OnEvents(uint32_t events) {
  const auto alive = alive_;
  if (events & EPOLLOUT) {
    if (out_.size() > kMaxPending) return Fail("peer does not read");
    if (!Flush()) return Fail(std::strerror(errno));
    if (out_.empty()) loop_.Change(socket_.get(), EPOLLIN);
  }
  if (*alive && (events & (EPOLLIN | EPOLLHUP | EPOLLERR))) Read();
}

bool JsonStream::Flush() {
  while (!out_.empty()) {
    const ssize_t n = ::send(socket_.get(), out_.data(), out_.size(), MSG_NOSIGNAL);
    if (n < 0 && errno == EINTR) continue;
    if (n < 0) return errno == EAGAIN || errno == EWOULDBLOCK;
    out_.erase(0, static_cast<size_t>(n));
  }
  return true;
}

void JsonStream::Read() {
  const auto alive = alive_;
  char buffer[65536];
  const ssize_t n = ::recv(socket_.get(), buffer, sizeof buffer, 0);
  if (n < 0) {
    if (errno == EAGAIN || errno == EWOULDBLOCK || errno == EINTR) return;
    return Fail(std::strerror(errno));
  }
  if (n == 0) return Fail("closed by the other side");
  in_.append(buffer, static_cast<size_t>(n));
  DeliverLines();
  if (*alive && in_.size() > kMaxPending) Fail("line too long");
}

void JsonStream::DeliverLines() {
  const auto alive = alive_;
  const auto on_message = on_message_;
  size_t end;
  while (*alive && !failed_ && (end = in_.find('\n')) != std::string::npos) {
    const std::string line = in_.substr(0, end);
    in_.erase(0, end + 1);
    const nlohmann::json value = nlohmann::json::parse(line, nullptr, false);
    if (!value.is_object()) return Fail("not a JSON object: " + line.substr(0, 80));
    try {
      (*on_message)(value);
    } catch (const nlohmann::json::exception& e) {
      // A member that is missing or of another type: the peer does not speak this protocol.
      if (*alive) return Fail(e.what());
      return;
    }
  }
}

void JsonStream::Fail(const std::string& why) {
  if (failed_) return;
  failed_ = true;
  loop_.Forget(socket_.get());
  // Moved out: the callback usually destroys this object, and with it the function it runs in.
  const OnClosed closed = std::move(on_closed_);
  closed(why);
}

}  // namespace emu
