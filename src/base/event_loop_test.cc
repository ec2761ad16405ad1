#include "src/base/event_loop.h"

#include <fcntl.h>
#include <gtest/gtest.h>
#include <sys/epoll.h>
#include <unistd.h>

#include <array>
#include <string>

namespace cd {
namespace {

struct Pipe {
  Pipe() {
    std::array<int, 2> ends{};
    if (::pipe2(ends.data(), O_CLOEXEC | O_NONBLOCK) != 0) std::abort();
    read.Reset(ends[0]);
    write.Reset(ends[1]);
  }
  Fd read, write;
};

TEST(EventLoop, posts_run_in_order_and_before_stop) {
  EventLoop loop;
  std::string order;
  loop.Post([&] { order += "a"; });
  loop.Post([&] { order += "b"; });
  loop.Stop();
  loop.Run();
  EXPECT_EQ(order, "ab");
}

TEST(EventLoop, posts_of_other_threads_run_on_the_loops_thread) {
  EventLoop loop;
  std::thread thread([&] { loop.Run(); });
  EXPECT_FALSE(loop.IsCurrent());
  bool current = false;
  loop.Post([&] {
    current = loop.IsCurrent();
    loop.Stop();
  });
  thread.join();
  EXPECT_TRUE(current);
}

TEST(EventLoop, timers_fire_by_time_then_by_creation) {
  EventLoop loop;
  std::string order;
  loop.PostAfter(Duration(20), [&] {
    order += "d";
    loop.Stop();
  });
  loop.PostAfter(Duration(5), [&] { order += "b"; });
  loop.PostAfter(Duration(5), [&] { order += "c"; });
  loop.PostAfter(Duration(0), [&] { order += "a"; });
  loop.Run();
  EXPECT_EQ(order, "abcd");
}

TEST(EventLoop, timer_set_by_another_thread_shortens_a_running_wait) {
  EventLoop loop;
  loop.PostAfter(std::chrono::hours(1), [] { FAIL() << "an hour cannot have passed"; });
  std::thread thread([&] { loop.Run(); });
  loop.PostAfter(Duration(1), [&] { loop.Stop(); });
  thread.join();
}

TEST(EventLoop, cancelled_timer_does_not_run_even_when_due) {
  EventLoop loop;
  bool ran = false;
  TimerId second = 0;
  loop.PostAfter(Duration(0), [&] {
    loop.Cancel(second);
    loop.Stop();
  });
  second = loop.PostAfter(Duration(0), [&] { ran = true; });
  loop.Run();
  EXPECT_FALSE(ran);
}

TEST(EventLoop, cancel_of_a_fired_timer_is_ignored) {
  EventLoop loop;
  TimerId timer = 0;
  timer = loop.PostAfter(Duration(0), [&] {
    loop.Cancel(timer);
    loop.Stop();
  });
  loop.Run();
}

TEST(EventLoop, readable_fd_calls_its_handler) {
  EventLoop loop;
  Pipe pipe;
  char got = 0;
  loop.Watch(pipe.read.get(), EPOLLIN, [&](std::uint32_t events) {
    EXPECT_TRUE(events & EPOLLIN);
    ASSERT_EQ(::read(pipe.read.get(), &got, 1), 1);
    loop.Unwatch(pipe.read.get());
    loop.Stop();
  });
  ASSERT_EQ(::write(pipe.write.get(), "x", 1), 1);
  loop.Run();
  EXPECT_EQ(got, 'x');
}

TEST(EventLoop, watching_again_replaces_mask_and_handler) {
  EventLoop loop;
  Pipe pipe;
  loop.Watch(pipe.write.get(), EPOLLIN, [](std::uint32_t) { FAIL() << "replaced handler ran"; });
  loop.Watch(pipe.write.get(), EPOLLOUT, [&](std::uint32_t) { loop.Stop(); });
  loop.Run();
}

TEST(EventLoop, event_of_an_unwatched_fd_of_the_same_batch_is_dropped) {
  EventLoop loop;
  std::array<Pipe, 2> pipes;
  int calls = 0;
  for (int i = 0; i < 2; ++i) {
    loop.Watch(pipes[i].read.get(), EPOLLIN, [&, i](std::uint32_t) {
      ++calls;
      loop.Unwatch(pipes[1 - i].read.get());
      // Its number is watched anew: the old readiness must not reach the new handler.
      loop.Watch(pipes[1 - i].read.get(), EPOLLOUT, [](std::uint32_t) { FAIL() << "stale event"; });
      loop.Stop();
    });
    ASSERT_EQ(::write(pipes[i].write.get(), "x", 1), 1);
  }
  loop.Run();
  EXPECT_EQ(calls, 1);
}

TEST(EventLoop, dropped_tasks_may_post_while_the_loop_dies) {
  struct PostsOnDeath {
    EventLoop* loop;
    ~PostsOnDeath() {
      loop->Post([] {});
    }
  };
  auto loop = std::make_unique<EventLoop>();
  loop->Post([keep = std::make_shared<PostsOnDeath>(PostsOnDeath{loop.get()})] {});
  loop.reset();
}

}  // namespace
}  // namespace cd
