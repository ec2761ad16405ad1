#include "src/webhook/https_server.h"

#include <gmock/gmock.h>

#include <condition_variable>
#include <future>
#include <mutex>
#include <thread>

#include "src/webhook/https_client_for_test.h"

namespace cd::webhook {
namespace {

using testing::HasSubstr;

// A door that requests wait at.
class Door {
 public:
  void Wait() {
    std::unique_lock lock(mutex_);
    ++waiting_;
    changed_.notify_all();
    changed_.wait(lock, [&] { return open_; });
  }
  void AwaitSomebody() {
    std::unique_lock lock(mutex_);
    changed_.wait(lock, [&] { return waiting_ > 0; });
  }
  void Open() {
    const std::lock_guard lock(mutex_);
    open_ = true;
    changed_.notify_all();
  }

 private:
  std::mutex mutex_;
  std::condition_variable changed_;
  int waiting_ = 0;
  bool open_ = false;
};

constexpr std::size_t kLongest = 1'000'000;

class HttpsServerTest : public testing::Test {
 protected:
  HttpsServerTest()
      : server([](std::string_view target) { return target == "/echo" || target == "/door" ? kLongest : 0; },
               [this](std::string_view target, std::string body) {
                 if (target == "/door") door.Wait();
                 return HttpAnswer{200, "echo " + body, "text/plain"};
               }) {
    EXPECT_TRUE(server.Use(identity));
    HttpsOptions options;
    options.address = "127.0.0.1";
    options.threads = 2;
    options.slow = Duration(500);
    EXPECT_TRUE(server.Listen(options));
  }
  KeyPair Issue(const KeyPair& by) { return IssueServer(by, {kServerName}, DayAround(SystemClock().WallNow())).value(); }

  const KeyPair authority = MakeAuthority("ca", DayAround(SystemClock().WallNow())).value();
  const KeyPair identity = Issue(authority);
  Door door;
  HttpsServer server;
};

TEST_F(HttpsServerTest, requests_of_a_client_share_a_connection) {
  HttpsClient client(server.port(), authority.certificate);
  Reply reply = client.Send("/echo?timeout=30s", "one");
  EXPECT_EQ(reply.status, 200) << reply.error;
  EXPECT_EQ(reply.body, "echo one");
  EXPECT_EQ(reply.connects, 1);
  reply = client.Send("/echo", std::string(kLongest, 'x'));
  EXPECT_EQ(reply.body.size(), kLongest + 5);
  EXPECT_EQ(reply.connects, 0);
}

TEST_F(HttpsServerTest, what_is_no_request_of_ours_is_refused) {
  HttpsClient client(server.port(), authority.certificate);
  EXPECT_EQ(client.Send("/other", "x").status, 404);
  EXPECT_EQ(client.Send("/echo", "", false).status, 405);
  EXPECT_EQ(client.Send("/echo", std::string(kLongest + 1, 'x')).status, 413);
  EXPECT_EQ(client.Send("/echo", "still there").status, 200);
}

TEST_F(HttpsServerTest, another_authority_does_not_trust_it) {
  HttpsClient client(server.port(), MakeAuthority("ca", DayAround(SystemClock().WallNow()))->certificate);
  const Reply reply = client.Send("/echo", "x");
  EXPECT_EQ(reply.status, 0);
  EXPECT_THAT(reply.error, HasSubstr("certificate"));
}

TEST_F(HttpsServerTest, new_identity_is_for_new_connections_and_disturbs_no_other) {
  HttpsClient before(server.port(), authority.certificate);
  ASSERT_EQ(before.Send("/echo", "x").status, 200);
  const KeyPair next = MakeAuthority("next", DayAround(SystemClock().WallNow())).value();
  ASSERT_TRUE(server.Use(Issue(next)));
  EXPECT_EQ(before.Send("/echo", "x").connects, 0);
  EXPECT_EQ(HttpsClient(server.port(), next.certificate).Send("/echo", "x").status, 200);
  EXPECT_EQ(HttpsClient(server.port(), authority.certificate).Send("/echo", "x").status, 0);
}

TEST_F(HttpsServerTest, wrong_identity_leaves_the_former_one) {
  for (const KeyPair& wrong : {KeyPair{}, KeyPair{identity.certificate, authority.key}, KeyPair{"x", identity.key}}) {
    EXPECT_FALSE(server.Use(wrong));
  }
  EXPECT_EQ(HttpsClient(server.port(), authority.certificate).Send("/echo", "x").status, 200);
}

TEST_F(HttpsServerTest, stopping_answers_what_has_begun) {
  auto busy =
      std::async(std::launch::async, [&] { return HttpsClient(server.port(), authority.certificate).Send("/door", "x"); });
  HttpsClient idle(server.port(), authority.certificate);
  ASSERT_EQ(idle.Send("/echo", "x").status, 200);
  door.AwaitSomebody();
  auto stopped = std::async(std::launch::async, [&] { server.Stop(std::chrono::minutes(1)); });
  door.Open();
  const Reply reply = busy.get();
  EXPECT_EQ(reply.status, 200) << reply.error;
  stopped.get();
  EXPECT_EQ(idle.Send("/echo", "x").status, 0) << "it takes no more";
}

TEST_F(HttpsServerTest, whoever_never_finishes_a_request_holds_no_thread) {
  std::vector<std::unique_ptr<HttpsClient>> others;
  // Plain connections that say nothing: as many as would take every thread.
  std::vector<CURL*> silent;
  for (int i = 0; i < 8; ++i) {
    CURL* curl = curl_easy_init();
    curl_easy_setopt(curl, CURLOPT_URL, ("http://127.0.0.1:" + std::to_string(server.port())).c_str());
    curl_easy_setopt(curl, CURLOPT_NOPROXY, "*");
    curl_easy_setopt(curl, CURLOPT_CONNECT_ONLY, 1L);
    ASSERT_EQ(curl_easy_perform(curl), CURLE_OK);
    silent.push_back(curl);
  }
  EXPECT_EQ(HttpsClient(server.port(), authority.certificate).Send("/echo", "x").status, 200);
  for (CURL* curl : silent) curl_easy_cleanup(curl);
}

TEST_F(HttpsServerTest, port_in_use_is_told) {
  HttpsServer second([](std::string_view) { return std::size_t(0); }, [](std::string_view, std::string) { return HttpAnswer{}; });
  ASSERT_TRUE(second.Use(identity));
  HttpsOptions options;
  options.address = "127.0.0.1";
  options.port = server.port();
  const Status listening = second.Listen(options);
  ASSERT_FALSE(listening);
  EXPECT_THAT(listening.error().message, HasSubstr(std::to_string(server.port())));
}

}  // namespace
}  // namespace cd::webhook
