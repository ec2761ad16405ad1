#include "src/base/http_health.h"

#include <arpa/inet.h>
#include <gtest/gtest.h>
#include <sys/socket.h>

#include <future>
#include <thread>

namespace cd {
namespace {

class HealthServerTest : public testing::Test {
 protected:
  void SetUp() override {
    const Status listening = server_.Listen(0);
    ASSERT_TRUE(listening) << listening.error().message;
    thread_ = std::thread([this] { loop_.Run(); });
  }
  void TearDown() override {
    loop_.Stop();
    thread_.join();
  }

  std::string Ask(const std::string& request) {
    Fd fd(::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0));
    sockaddr_in to{};
    to.sin_family = AF_INET;
    to.sin_port = htons(server_.port());
    to.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    EXPECT_EQ(::connect(fd.get(), reinterpret_cast<const sockaddr*>(&to), sizeof to), 0);
    // In two pieces, as a network may deliver it.
    EXPECT_GT(::send(fd.get(), request.data(), 5, MSG_NOSIGNAL), 0);
    EXPECT_GT(::send(fd.get(), request.data() + 5, request.size() - 5, MSG_NOSIGNAL), 0);
    std::string answer;
    char buffer[512];
    while (true) {
      const ssize_t got = ::recv(fd.get(), buffer, sizeof buffer, 0);
      if (got <= 0) return answer;
      answer.append(buffer, static_cast<std::size_t>(got));
    }
  }

  std::string why_not_;
  EventLoop loop_;
  HealthServer server_{loop_, [this](std::string_view path) { return AnswerProbe(path, [this] { return why_not_; }); }};
  std::thread thread_;
};

TEST_F(HealthServerTest, alive_and_ready) {
  EXPECT_EQ(Ask("GET /healthz HTTP/1.1\r\nHost: x\r\n\r\n").substr(0, 15), "HTTP/1.1 200 OK");
  EXPECT_EQ(Ask("GET /readyz?verbose HTTP/1.1\r\n\r\n").substr(0, 15), "HTTP/1.1 200 OK");
}

TEST_F(HealthServerTest, not_ready_says_why) {
  std::promise<void> set;
  loop_.Post([&] {
    why_not_ = "caches are not synced";
    set.set_value();
  });
  set.get_future().wait();
  const std::string answer = Ask("GET /readyz HTTP/1.1\r\n\r\n");
  EXPECT_EQ(answer.substr(0, 12), "HTTP/1.1 503");
  EXPECT_NE(answer.find("caches are not synced"), std::string::npos);
}

TEST_F(HealthServerTest, other_paths_and_methods_are_refused) {
  EXPECT_EQ(Ask("GET /secrets HTTP/1.1\r\n\r\n").substr(0, 12), "HTTP/1.1 404");
  EXPECT_EQ(Ask("POST /healthz HTTP/1.1\r\n\r\n").substr(0, 12), "HTTP/1.1 405");
}

TEST_F(HealthServerTest, endless_request_is_cut_off) {
  EXPECT_EQ(Ask("GET /" + std::string(20'000, 'x')), "");
}

}  // namespace
}  // namespace cd
