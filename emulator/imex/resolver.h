// Host names to addresses, without holding up the daemon: a name server may take seconds to say nothing.
#pragma once

#include <condition_variable>
#include <deque>
#include <functional>
#include <map>
#include <mutex>
#include <string>
#include <thread>
#include <vector>

#include "emulator/base/event_loop.h"
#include "emulator/base/unique_fd.h"

namespace emu::imex {

// Blocks. An address resolves to itself, an unknown name to nothing.
std::vector<std::string> Resolve(const std::string& host);

// Addresses of this machine's interfaces.
std::vector<std::string> InterfaceAddresses();
// Name of the interface with this address; empty if none has it.
std::string InterfaceOf(const std::string& ip);

class Resolver {
 public:
  using Done = std::function<void(std::vector<std::string>)>;

  explicit Resolver(EventLoop& loop);
  Resolver(const Resolver&) = delete;
  Resolver& operator=(const Resolver&) = delete;
  ~Resolver();

  // Calls `done` from the loop. Cancel(id) before what it refers to goes away.
  uint64_t Start(const std::string& host, Done done);
  void Cancel(uint64_t id) { waiting_.erase(id); }

 private:
  struct Question {
    uint64_t id;
    std::string host;
  };
  struct Answer {
    uint64_t id;
    std::vector<std::string> addresses;
  };

  void Work();
  void DeliverAnswers();

  EventLoop& loop_;
  UniqueFd answered_;                 // eventfd
  std::map<uint64_t, Done> waiting_;  // loop thread only
  uint64_t next_id_ = 1;

  std::mutex mutex_;
  std::condition_variable asked_;
  std::deque<Question> questions_;
  std::vector<Answer> answers_;
  bool stopping_ = false;
  std::thread thread_;
};

}  // namespace emu::imex
