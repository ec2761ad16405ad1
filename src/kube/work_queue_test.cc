#include "src/kube/work_queue.h"

#include <gtest/gtest.h>

#include <thread>

#include "src/base/manual_executor.h"

namespace cd::kube {
namespace {

class Queue : public testing::Test {
 protected:
  ManualClock clock_;
  WorkQueue queue_{clock_};
};

TEST_F(Queue, keys_come_in_order_and_once) {
  queue_.Add("a");
  queue_.Add("b");
  queue_.Add("a");
  EXPECT_EQ(queue_.Depth(), 2U);
  EXPECT_EQ(queue_.TryTake(), "a");
  EXPECT_EQ(queue_.TryTake(), "b");
  EXPECT_EQ(queue_.TryTake(), std::nullopt);
}

TEST_F(Queue, key_in_work_comes_again_only_after_done) {
  queue_.Add("a");
  EXPECT_EQ(queue_.TryTake(), "a");
  queue_.Add("a");
  queue_.Add("a");
  EXPECT_EQ(queue_.TryTake(), std::nullopt);
  queue_.Done("a");
  EXPECT_EQ(queue_.TryTake(), "a");
  queue_.Done("a");
  EXPECT_EQ(queue_.TryTake(), std::nullopt);
}

TEST_F(Queue, earliest_wish_of_a_waiting_key_wins) {
  queue_.AddAfter("a", Duration(100));
  queue_.AddAfter("a", Duration(50));
  queue_.AddAfter("a", Duration(200));
  clock_.Advance(Duration(49));
  EXPECT_EQ(queue_.TryTake(), std::nullopt);
  clock_.Advance(Duration(1));
  EXPECT_EQ(queue_.TryTake(), "a");
  queue_.Done("a");
  clock_.Advance(Duration(1000));
  EXPECT_EQ(queue_.TryTake(), std::nullopt);
}

TEST_F(Queue, failing_key_backs_off_until_forgotten) {
  for (int expected : {5, 10, 20, 40}) {
    queue_.AddRateLimited("a");
    clock_.Advance(Duration(expected - 1));
    EXPECT_EQ(queue_.TryTake(), std::nullopt);
    clock_.Advance(Duration(1));
    EXPECT_EQ(queue_.TryTake(), "a");
    queue_.Done("a");
  }
  for (int i = 0; i < 20; ++i) queue_.AddRateLimited("a");
  clock_.Advance(Duration(6000));
  EXPECT_EQ(queue_.TryTake(), "a");
  queue_.Done("a");
  queue_.Forget("a");
  queue_.AddRateLimited("a");
  clock_.Advance(Duration(5));
  EXPECT_EQ(queue_.TryTake(), "a");
}

TEST(WorkQueue, take_waits_for_a_key_of_another_thread) {
  WorkQueue queue(SystemClock());
  std::optional<std::string> taken;
  std::thread worker([&] { taken = queue.Take(); });
  queue.AddAfter("late", std::chrono::hours(1));
  queue.AddAfter("soon", Duration(1));
  worker.join();
  EXPECT_EQ(taken, "soon");
}

TEST(WorkQueue, shut_down_ends_every_wait) {
  WorkQueue queue(SystemClock());
  std::optional<std::string> taken = "x";
  std::thread worker([&] { taken = queue.Take(); });
  queue.ShutDown();
  worker.join();
  EXPECT_EQ(taken, std::nullopt);
  queue.Add("a");
  EXPECT_EQ(queue.Take(), std::nullopt);
}

TEST(WorkQueue, one_key_is_never_on_two_workers) {
  WorkQueue queue(SystemClock());
  std::atomic<int> inside = 0, rounds = 0;
  std::atomic<bool> twice = false;
  auto work = [&] {
    while (auto key = queue.Take()) {
      if (++inside > 1) twice = true;
      if (++rounds < 2000) {
        queue.Add(*key);
      } else {
        queue.ShutDown();
      }
      --inside;
      queue.Done(*key);
    }
  };
  queue.Add("a");
  std::thread one(work), two(work);
  one.join();
  two.join();
  EXPECT_FALSE(twice);
}

}  // namespace
}  // namespace cd::kube
