#include "emulator/base/event_loop.h"

#include <gtest/gtest.h>
#include <sys/epoll.h>
#include <sys/socket.h>

#include <nlohmann/json.hpp>

#include "emulator/base/json_stream.h"

namespace emu {
namespace {

using nlohmann::json;

struct Pair {
  Pair() {
    int fds[2] = {-1, -1};
    EXPECT_EQ(::socketpair(AF_UNIX, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0, fds), 0);
    a = UniqueFd(fds[0]);
    b = UniqueFd(fds[1]);
  }
  UniqueFd a, b;
};

void WriteText(const UniqueFd& fd, const std::string& text) {
  ASSERT_EQ(::write(fd.get(), text.data(), text.size()), static_cast<ssize_t>(text.size()));
}

TEST(EventLoop, timers_fire_in_order_of_time_then_creation) {
  EventLoop loop;
  std::string order;
  const auto late = loop.After(Milliseconds(2), [&] { loop.Stop(7); });
  const auto first = loop.After(Milliseconds(0), [&] { order += "a"; });
  const auto second = loop.After(Milliseconds(0), [&] { order += "b"; });
  EXPECT_EQ(loop.Run(), 7);
  EXPECT_EQ(order, "ab");
}

TEST(EventLoop, destroyed_timer_does_not_fire) {
  EventLoop loop;
  bool fired = false;
  {
    const auto timer = loop.After(Milliseconds(0), [&] { fired = true; });
  }
  const auto end = loop.After(Milliseconds(1), [&] { loop.Stop(0); });
  loop.Run();
  EXPECT_FALSE(fired);
}

TEST(EventLoop, timer_may_replace_itself) {
  EventLoop loop;
  int runs = 0;
  EventLoop::Timer timer;
  std::function<void()> again = [&] {
    if (++runs == 3) return loop.Stop(0);
    timer = loop.After(Milliseconds(0), again);
  };
  timer = loop.After(Milliseconds(0), again);
  loop.Run();
  EXPECT_EQ(runs, 3);
}

TEST(EventLoop, events_fetched_for_a_forgotten_descriptor_are_dropped) {
  EventLoop loop;
  Pair one, two;
  WriteText(one.b, "x");
  WriteText(two.b, "x");
  int calls = 0;
  // Both are readable in one turn; whoever comes first forgets both.
  const auto handler = [&](uint32_t) {
    ++calls;
    loop.Forget(one.a.get());
    loop.Forget(two.a.get());
  };
  loop.Watch(one.a.get(), EPOLLIN, handler);
  loop.Watch(two.a.get(), EPOLLIN, handler);
  const auto end = loop.After(Milliseconds(1), [&] { loop.Stop(0); });
  loop.Run();
  EXPECT_EQ(calls, 1);
}

class JsonStreamTest : public ::testing::Test {
 protected:
  void Open(JsonStream::OnMessage on_message = nullptr) {
    stream = std::make_unique<JsonStream>(
        loop, std::move(pair.a),
        [this, on_message](const json& message) {
          messages.push_back(message);
          if (on_message) on_message(message);
          if (messages.size() == expected) loop.Stop(0);
        },
        [this](const std::string& why) {
          closed = why;
          stream.reset();
          loop.Stop(0);
        });
  }

  EventLoop loop;
  Pair pair;
  std::unique_ptr<JsonStream> stream;
  std::vector<json> messages;
  size_t expected = 0;
  std::string closed;
};

TEST_F(JsonStreamTest, lines_are_joined_from_pieces) {
  Open();
  expected = 2;
  WriteText(pair.b, "{\"a\":1}\n{\"b\"");
  const auto rest = loop.After(Milliseconds(1), [&] { WriteText(pair.b, ":2}\n"); });
  loop.Run();
  EXPECT_EQ(messages, (std::vector<json>{{{"a", 1}}, {{"b", 2}}}));
}

TEST_F(JsonStreamTest, end_of_the_other_side_is_told_after_what_it_said) {
  Open();
  WriteText(pair.b, "{\"last\":true}\n");
  pair.b.Close();
  loop.Run();
  EXPECT_EQ(messages.size(), 1U);
  EXPECT_EQ(closed, "closed by the other side");
}

TEST_F(JsonStreamTest, other_than_objects_end_the_stream) {
  for (const char* text : {"nonsense\n", "[1]\n", "\n"}) {
    pair = Pair();
    closed.clear();
    Open();
    WriteText(pair.b, text);
    loop.Run();
    EXPECT_NE(closed.find("not a JSON object"), std::string::npos) << text;
  }
}

TEST_F(JsonStreamTest, message_of_a_wrong_shape_ends_the_stream) {
  Open([](const json& message) { message.at("missing"); });
  WriteText(pair.b, "{}\n");
  loop.Run();
  EXPECT_FALSE(closed.empty());
}

TEST_F(JsonStreamTest, receiver_may_destroy_the_stream) {
  Open([this](const json&) { stream.reset(); });
  expected = 1;
  WriteText(pair.b, "{}\n{}\n");
  loop.Run();
  EXPECT_EQ(messages.size(), 1U);
  EXPECT_TRUE(closed.empty());
}

TEST_F(JsonStreamTest, more_than_the_socket_takes_arrives_whole) {
  Open();
  const std::string text(1 << 20, 'x');
  stream->Send({{"text", text}});
  std::string got;
  loop.Watch(pair.b.get(), EPOLLIN, [&](uint32_t) {
    char buffer[65536];
    const ssize_t n = ::read(pair.b.get(), buffer, sizeof buffer);
    if (n > 0) got.append(buffer, static_cast<size_t>(n));
    if (got.ends_with('\n')) loop.Stop(0);
  });
  loop.Run();
  loop.Forget(pair.b.get());
  EXPECT_EQ(json::parse(got).at("text"), text);
}

}  // namespace
}  // namespace emu
