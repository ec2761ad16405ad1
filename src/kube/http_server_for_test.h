// A loopback HTTP server that says what the test wrote down, one answer per connection: for failures a real API server cannot be
// asked to produce.
#pragma once

#include <arpa/inet.h>
#include <netinet/in.h>
#include <sys/socket.h>
#include <unistd.h>

#include <fmt/format.h>
#include <cstdlib>
#include <deque>
#include <mutex>
#include <string>
#include <thread>
#include <vector>

#include "src/base/fd.h"

namespace cd::kube {

class ScriptedServer {
 public:
  // Whole answers; an empty one closes the connection after the request was read. Without any left connections are closed.
  explicit ScriptedServer(std::deque<std::string> answers, int port = 0) : answers_(std::move(answers)) {
    listener_.Reset(::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0));
    const int on = 1;
    ::setsockopt(listener_.get(), SOL_SOCKET, SO_REUSEADDR, &on, sizeof on);
    sockaddr_in address{};
    address.sin_family = AF_INET;
    address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    address.sin_port = htons(static_cast<std::uint16_t>(port));
    socklen_t size = sizeof address;
    if (::bind(listener_.get(), reinterpret_cast<sockaddr*>(&address), size) != 0 || ::listen(listener_.get(), 16) != 0 ||
        ::getsockname(listener_.get(), reinterpret_cast<sockaddr*>(&address), &size) != 0) {
      std::abort();
    }
    port_ = ntohs(address.sin_port);
    thread_ = std::thread([this] { Serve(); });
  }
  ~ScriptedServer() {
    ::shutdown(listener_.get(), SHUT_RDWR);
    thread_.join();
  }

  static std::string Answer(int status, const std::string& body, const std::string& headers = "") {
    return fmt::format("HTTP/1.1 {} X\r\nContent-Length: {}\r\nConnection: close\r\n{}\r\n{}", status, body.size(), headers,
                       body);
  }
  int port() const { return port_; }
  std::string Url() const { return fmt::format("http://127.0.0.1:{}", port_); }
  std::vector<std::string> Requests() {
    std::lock_guard lock(mutex_);
    return requests_;
  }

 private:
  void Serve() {
    for (;;) {
      Fd connection(::accept4(listener_.get(), nullptr, nullptr, SOCK_CLOEXEC));
      if (!connection) return;
      std::string request = Read(connection.get());
      std::string answer;
      {
        std::lock_guard lock(mutex_);
        requests_.push_back(std::move(request));
        if (!answers_.empty()) {
          answer = std::move(answers_.front());
          answers_.pop_front();
        }
      }
      [[maybe_unused]] ssize_t n = ::send(connection.get(), answer.data(), answer.size(), MSG_NOSIGNAL);
    }
  }
  static std::string Read(int fd) {
    std::string request;
    for (;;) {
      const std::size_t head = request.find("\r\n\r\n");
      if (head != std::string::npos) {
        const std::size_t length = request.find("Content-Length: ");
        const std::size_t body = length < head ? std::strtoul(request.c_str() + length + 16, nullptr, 10) : 0;
        if (request.size() >= head + 4 + body) return request;
      }
      char buffer[4096];
      const ssize_t n = ::recv(fd, buffer, sizeof buffer, 0);
      if (n <= 0) return request;
      request.append(buffer, static_cast<std::size_t>(n));
    }
  }

  Fd listener_;
  int port_ = 0;
  std::mutex mutex_;
  std::deque<std::string> answers_;
  std::vector<std::string> requests_;
  std::thread thread_;
};

}  // namespace cd::kube
