// A stack of its own for code that waits in the middle of a call: a controller's worker for an answer, a plugin for a slow disk.
// One thread: a fiber runs until it yields, and the scheduler says when it goes on.
#pragma once

#include <ucontext.h>

#include <functional>
#include <memory>

namespace cd::simulation {

// Unwinds a process that was killed. Thrown by Fiber::Yield and by whoever plays a crash inside a fiber.
struct Killed {};

class Fiber {
 public:
  Fiber();
  // A body that has not ended is unwound.
  ~Fiber();
  Fiber(const Fiber&) = delete;
  Fiber& operator=(const Fiber&) = delete;

  // Runs `body` until it ends or yields. Not while another one is under way.
  void Run(std::function<void()> body);
  // Goes on after the last Yield.
  void Resume();
  bool busy() const { return busy_; }
  // The last body was unwound by Killed.
  bool killed() const { return killed_; }
  void Kill();

  // Inside a fiber: back to whoever runs it.
  static void Yield();
  // nullptr outside.
  static Fiber* Current();

 private:
  static void Main(unsigned high, unsigned low);
  void Enter();
  void Leave();
  void Loop();

  struct Stack;
  std::unique_ptr<Stack> stack_;
  ucontext_t inside_{};
  ucontext_t outside_{};
  std::function<void()> body_;
  bool busy_ = false;
  bool killing_ = false;
  bool killed_ = false;
  // For the sanitizers.
  [[maybe_unused]] void* tsan_inside_ = nullptr;
  [[maybe_unused]] void* tsan_outside_ = nullptr;
  [[maybe_unused]] const void* outside_bottom_ = nullptr;
  [[maybe_unused]] std::size_t outside_size_ = 0;
};

}  // namespace cd::simulation
