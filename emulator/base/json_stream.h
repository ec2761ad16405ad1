// A stream socket that carries one JSON value a line, both ways.
#pragma once

#include <functional>
#include <memory>
#include <nlohmann/json_fwd.hpp>
#include <string>

#include "emulator/base/event_loop.h"
#include "emulator/base/unique_fd.h"

namespace emu {

class JsonStream {
 public:
  // Both may destroy the stream. `closed` is called at most once, never from within Send().
  using OnMessage = std::function<void(const nlohmann::json&)>;
  using OnClosed = std::function<void(const std::string& why)>;

  // Takes a connected, non-blocking socket.
  JsonStream(EventLoop& loop, UniqueFd socket, OnMessage on_message, OnClosed on_closed);
  JsonStream(const JsonStream&) = delete;
  JsonStream& operator=(const JsonStream&) = delete;
  ~JsonStream();

  // Queues the value; what the kernel does not take at once goes out when it can.
  void Send(const nlohmann::json& value);

  int fd() const { return socket_.get(); }

 private:
  void OnEvents(uint32_t events);
  void Read();
  void DeliverLines();
  bool Flush();
  void Fail(const std::string& why);

  EventLoop& loop_;
  UniqueFd socket_;
  // Shared with a running call, which may destroy the stream and so the function it is in.
  std::shared_ptr<OnMessage> on_message_;
  OnClosed on_closed_;
  std::string in_;
  std::string out_;
  bool failed_ = false;
  // Outlives the stream, so that code running in a callback can see that the callback destroyed it.
  std::shared_ptr<bool> alive_ = std::make_shared<bool>(true);
};

}  // namespace emu
