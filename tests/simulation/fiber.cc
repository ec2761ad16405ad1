#include "tests/simulation/fiber.h"

#include <cstdint>
#include <utility>
#include <vector>

#if defined(__has_feature)
#if __has_feature(address_sanitizer)
#define CD_ASAN 1
#endif
#if __has_feature(thread_sanitizer)
#define CD_TSAN 1
#endif
#endif
#if defined(__SANITIZE_ADDRESS__)
#define CD_ASAN 1
#endif
#if defined(CD_SIMULATION_TSAN)
#define CD_TSAN 1
#endif
#ifdef CD_ASAN
#include <sanitizer/common_interface_defs.h>
#endif
#ifdef CD_TSAN
#include <sanitizer/tsan_interface.h>
#endif

namespace cd::simulation {
namespace {

constexpr std::size_t kStackSize = 256 << 10;

Fiber* current = nullptr;

// Stacks are used again: a run makes and drops dozens of processes.
std::vector<std::unique_ptr<char[]>>& Pool() {
  static std::vector<std::unique_ptr<char[]>> pool;
  return pool;
}

}  // namespace

struct Fiber::Stack {
  Stack() {
    if (Pool().empty()) {
      memory = std::make_unique_for_overwrite<char[]>(kStackSize);
    } else {
      memory = std::move(Pool().back());
      Pool().pop_back();
    }
  }
  ~Stack() { Pool().push_back(std::move(memory)); }
  std::unique_ptr<char[]> memory;
};

Fiber::Fiber() : stack_(std::make_unique<Stack>()) {
  ::getcontext(&inside_);
  inside_.uc_stack.ss_sp = stack_->memory.get();
  inside_.uc_stack.ss_size = kStackSize;
  inside_.uc_link = nullptr;
  const auto self = reinterpret_cast<std::uintptr_t>(this);
  ::makecontext(&inside_, reinterpret_cast<void (*)()>(&Fiber::Main), 2, static_cast<unsigned>(self >> 32),
                static_cast<unsigned>(self));
#ifdef CD_TSAN
  tsan_inside_ = __tsan_create_fiber(0);
#endif
}

Fiber::~Fiber() {
  Kill();
#ifdef CD_TSAN
  __tsan_destroy_fiber(tsan_inside_);
#endif
}

void Fiber::Run(std::function<void()> body) {
  body_ = std::move(body);
  busy_ = true;
  killed_ = false;
  Enter();
}

void Fiber::Resume() {
  Enter();
}

void Fiber::Kill() {
  if (!busy_) return;
  killing_ = true;
  Enter();
  killing_ = false;
}

void Fiber::Yield() {
  Fiber* const self = current;
  self->Leave();
  if (self->killing_) throw Killed{};
}

Fiber* Fiber::Current() {
  return current;
}

void Fiber::Enter() {
  Fiber* const before = std::exchange(current, this);
#ifdef CD_TSAN
  tsan_outside_ = __tsan_get_current_fiber();
  __tsan_switch_to_fiber(tsan_inside_, 0);
#endif
#ifdef CD_ASAN
  void* fake = nullptr;
  __sanitizer_start_switch_fiber(&fake, stack_->memory.get(), kStackSize);
#endif
  ::swapcontext(&outside_, &inside_);
#ifdef CD_ASAN
  __sanitizer_finish_switch_fiber(fake, nullptr, nullptr);
#endif
  current = before;
}

void Fiber::Leave() {
#ifdef CD_TSAN
  __tsan_switch_to_fiber(tsan_outside_, 0);
#endif
#ifdef CD_ASAN
  void* fake = nullptr;
  __sanitizer_start_switch_fiber(&fake, outside_bottom_, outside_size_);
#endif
  ::swapcontext(&inside_, &outside_);
#ifdef CD_ASAN
  __sanitizer_finish_switch_fiber(fake, &outside_bottom_, &outside_size_);
#endif
}

void Fiber::Loop() {
#ifdef CD_ASAN
  __sanitizer_finish_switch_fiber(nullptr, &outside_bottom_, &outside_size_);
#endif
  for (;;) {
    try {
      body_();
    } catch (const Killed&) {
      killed_ = true;
    }
    body_ = nullptr;
    busy_ = false;
    Leave();
  }
}

void Fiber::Main(unsigned high, unsigned low) {
  reinterpret_cast<Fiber*>((static_cast<std::uintptr_t>(high) << 32) | low)->Loop();
}

}  // namespace cd::simulation
