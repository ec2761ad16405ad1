#include "emulator/imex/resolver.h"

#include <arpa/inet.h>
#include <ifaddrs.h>
#include <netdb.h>
#include <sys/epoll.h>
#include <sys/eventfd.h>

#include <memory>

namespace emu::imex {
namespace {

std::string NumericText(const sockaddr* address) {
  char text[INET6_ADDRSTRLEN] = "";
  if (address->sa_family == AF_INET) {
    ::inet_ntop(AF_INET, &reinterpret_cast<const sockaddr_in*>(address)->sin_addr, text, sizeof text);
  } else if (address->sa_family == AF_INET6) {
    ::inet_ntop(AF_INET6, &reinterpret_cast<const sockaddr_in6*>(address)->sin6_addr, text, sizeof text);
  }
  return text;
}

void ForEachInterfaceAddress(const std::function<void(const std::string& interface, const std::string& ip)>& use) {
  ifaddrs* list = nullptr;
  if (::getifaddrs(&list) != 0) return;
  const std::unique_ptr<ifaddrs, void (*)(ifaddrs*)> owner(list, &::freeifaddrs);
  for (const ifaddrs* entry = list; entry != nullptr; entry = entry->ifa_next) {
    const std::string ip = entry->ifa_addr != nullptr ? NumericText(entry->ifa_addr) : "";
    if (!ip.empty()) use(entry->ifa_name, ip);
  }
}

}  // namespace

std::vector<std::string> Resolve(const std::string& host) {
  addrinfo hints{};
  hints.ai_socktype = SOCK_STREAM;
  addrinfo* list = nullptr;
  if (::getaddrinfo(host.c_str(), nullptr, &hints, &list) != 0) return {};
  const std::unique_ptr<addrinfo, void (*)(addrinfo*)> owner(list, &::freeaddrinfo);
  std::vector<std::string> addresses;
  for (const addrinfo* entry = list; entry != nullptr; entry = entry->ai_next) {
    addresses.push_back(NumericText(entry->ai_addr));
  }
  return addresses;
}

std::vector<std::string> InterfaceAddresses() {
  std::vector<std::string> addresses;
  ForEachInterfaceAddress([&](const std::string&, const std::string& ip) { addresses.push_back(ip); });
  return addresses;
}

std::string InterfaceOf(const std::string& wanted) {
  std::string name;
  ForEachInterfaceAddress([&](const std::string& interface, const std::string& ip) {
    if (ip == wanted) name = interface;
  });
  return name;
}

Resolver::Resolver(EventLoop& loop) : loop_(loop), answered_(::eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK)) {
  loop_.Watch(answered_.get(), EPOLLIN, [this](uint32_t) { DeliverAnswers(); });
  thread_ = std::thread([this] { Work(); });
}

Resolver::~Resolver() {
  {
    const std::lock_guard lock(mutex_);
    stopping_ = true;
  }
  asked_.notify_one();
  thread_.join();
  loop_.Forget(answered_.get());
}

uint64_t Resolver::Start(const std::string& host, Done done) {
  const uint64_t id = next_id_++;
  waiting_[id] = std::move(done);
  {
    const std::lock_guard lock(mutex_);
    questions_.push_back({id, host});
  }
  asked_.notify_one();
  return id;
}

void Resolver::Work() {
  std::unique_lock lock(mutex_);
  while (true) {
    asked_.wait(lock, [this] { return stopping_ || !questions_.empty(); });
    if (stopping_) return;
    const Question question = std::move(questions_.front());
    questions_.pop_front();
    lock.unlock();
    Answer answer{question.id, Resolve(question.host)};
    lock.lock();
    answers_.push_back(std::move(answer));
    const uint64_t one = 1;
    // Cannot fail short of 2^64 unread answers.
    [[maybe_unused]] const ssize_t written = ::write(answered_.get(), &one, sizeof one);
  }
}

void Resolver::DeliverAnswers() {
  uint64_t count = 0;
  [[maybe_unused]] const ssize_t got = ::read(answered_.get(), &count, sizeof count);
  std::vector<Answer> answers;
  {
    const std::lock_guard lock(mutex_);
    answers.swap(answers_);
  }
  for (Answer& answer : answers) {
    const auto waiting = waiting_.extract(answer.id);
    if (!waiting.empty()) waiting.mapped()(std::move(answer.addresses));
  }
}

}  // namespace emu::imex
