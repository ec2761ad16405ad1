// What the client does about failures. Everything a healthy server can show is in tests/integration.
#include "src/kube/rest_client.h"

#include <gtest/gtest.h>

#include <nlohmann/json.hpp>
#include <optional>

#include "src/base/files.h"
#include "src/base/temp_dir.h"
#include "src/kube/http_server_for_test.h"

namespace cd::kube {
namespace {

using nlohmann::json;
using Answers = std::deque<std::string>;

std::string Ok(const std::string& body = "{}") {
  return ScriptedServer::Answer(200, body);
}
std::string Busy(int status) {
  return ScriptedServer::Answer(status, R"({"message":"busy"})", "Retry-After: 1\r\n");
}
constexpr char kLost[] = "";

json Bare() {
  return {{"metadata", {{"namespace", "ns"}, {"name", "a"}}}};
}
json Versioned() {
  json object = Bare();
  object["metadata"]["resourceVersion"] = "7";
  return object;
}

// Runs one call to its end on a loop of its own.
Result<json> Run(ClientConfig config, ApiRequest request) {
  EventLoop loop;
  RestClient client(loop, std::move(config), "compute-domain-test/1", 1);
  std::optional<Result<json>> answer;
  client.Call(std::move(request), [&](Result<json> a) {
    answer = std::move(a);
    loop.Stop();
  });
  loop.Run();
  return *std::move(answer);
}

struct Outcome {
  Result<json> result;
  std::vector<std::string> requests;
};

Outcome Against(Answers answers, ApiRequest request) {
  ScriptedServer server(std::move(answers));
  Result<json> result = Run({.server = server.Url(), .token = "secret"}, std::move(request));
  return {std::move(result), server.Requests()};
}

TEST(RestClient, request_says_who_asks_and_for_what) {
  const Outcome outcome = Against({Ok()}, Get(api::kPods, {"ns", "a"}));
  ASSERT_TRUE(outcome.result);
  const std::string& request = outcome.requests.at(0);
  EXPECT_EQ(request.substr(0, request.find('\r')), "GET /api/v1/namespaces/ns/pods/a HTTP/1.1");
  EXPECT_NE(request.find("User-Agent: compute-domain-test/1\r\n"), std::string::npos);
  EXPECT_NE(request.find("Accept: application/json\r\n"), std::string::npos);
  EXPECT_NE(request.find("Authorization: Bearer secret\r\n"), std::string::npos);
}

TEST(RestClient, retry_after_is_obeyed_for_every_verb) {
  for (int status : {429, 503}) {
    const Outcome outcome = Against({Busy(status), Ok()}, Create(api::kPods, "ns", Bare()));
    EXPECT_TRUE(outcome.result);
    EXPECT_EQ(outcome.requests.size(), 2U);
  }
}

TEST(RestClient, lost_answer_is_asked_again_only_when_that_is_safe) {
  EXPECT_TRUE(Against({kLost, Ok()}, Get(api::kPods, {"ns", "a"})).result);
  EXPECT_TRUE(Against({kLost, Ok()}, Update(api::kPods, Versioned())).result);
  EXPECT_TRUE(Against({kLost, Ok()}, Delete(api::kPods, {"ns", "a"}, "uid")).result);
  for (const ApiRequest& request : {Create(api::kPods, "ns", Bare()), Update(api::kPods, Bare()), Delete(api::kPods, {"ns", "a"}),
                                    MergePatch(api::kPods, {"ns", "a"}, Bare())}) {
    const Outcome outcome = Against({kLost, Ok()}, request);
    ASSERT_FALSE(outcome.result);
    EXPECT_EQ(outcome.result.error().code, ErrorCode::kUnavailable);
    EXPECT_EQ(outcome.requests.size(), 1U);
  }
}

TEST(RestClient, answers_without_retry_after_are_not_asked_again) {
  for (int status : {400, 403, 404, 409, 410, 422, 500}) {
    EXPECT_EQ(Against({ScriptedServer::Answer(status, "{}"), Ok()}, Get(api::kPods, {"ns", "a"})).requests.size(), 1U) << status;
  }
}

TEST(RestClient, tries_end) {
  const Outcome outcome = Against({}, Get(api::kPods, {"ns", "a"}));
  EXPECT_EQ(outcome.result.error().code, ErrorCode::kUnavailable);
  EXPECT_EQ(outcome.requests.size(), 10U);
}

TEST(RestClient, retries_stay_within_the_timeout) {
  ApiRequest request = Get(api::kPods, {"ns", "a"});
  request.timeout = Duration(900);
  const Outcome outcome = Against({Busy(429), Ok()}, request);
  EXPECT_EQ(outcome.result.error().code, ErrorCode::kTooManyRequests);
  EXPECT_EQ(outcome.requests.size(), 1U);
}

TEST(RestClient, refused_connection_is_tried_again_for_every_verb) {
  std::optional<ScriptedServer> server(std::in_place, Answers{});
  const int port = server->port();
  const std::string url = server->Url();
  server.reset();
  EventLoop loop;
  RestClient client(loop, {.server = url}, "test", 1);
  std::optional<Result<json>> answer;
  client.Call(Create(api::kPods, "ns", Bare()), [&](Result<json> a) {
    answer = std::move(a);
    loop.Stop();
  });
  // The first tries find nobody.
  loop.PostAfter(Duration(50), [&] { server.emplace(Answers{Ok()}, port); });
  loop.Run();
  EXPECT_TRUE(answer->has_value()) << answer->error().message;
}

TEST(RestClient, refused_token_is_read_again_once) {
  const TempDir temporary;
  const std::filesystem::path& folder = temporary.path();
  ASSERT_TRUE(ReplaceFile(folder / "token", "old"));
  const std::string unauthorized = ScriptedServer::Answer(401, "{}");
  ScriptedServer server({unauthorized, Ok(), unauthorized, unauthorized});
  EventLoop loop;
  RestClient client(loop, {.server = server.Url(), .token_file = folder / "token"}, "test", 1);
  const auto call = [&] {
    std::optional<Result<json>> answer;
    client.Call(Create(api::kPods, "ns", Bare()), [&](Result<json> a) {
      answer = std::move(a);
      loop.Stop();
    });
    loop.Run();
    return *answer;
  };
  ASSERT_TRUE(ReplaceFile(folder / "token", "new"));
  EXPECT_TRUE(call());
  EXPECT_NE(server.Requests().at(1).find("Bearer new"), std::string::npos);
  EXPECT_EQ(call().error().code, ErrorCode::kUnauthorized);
  EXPECT_EQ(server.Requests().size(), 3U) << "the file held no other token";
}

TEST(RestClient, list_with_an_expired_page_is_read_whole) {
  const std::string page = Ok(R"({"metadata":{"continue":"next","resourceVersion":"7"},"items":[{"n":1},{"n":2}]})");
  const std::string all = Ok(R"({"metadata":{"resourceVersion":"9"},"items":[{"n":1},{"n":3}]})");
  const Outcome outcome = Against({page, ScriptedServer::Answer(410, R"({"reason":"Expired"})"), all}, List(api::kPods));
  ASSERT_TRUE(outcome.result);
  EXPECT_EQ((*outcome.result)["items"], json::parse(R"([{"n":1},{"n":3}])"));
  EXPECT_NE(outcome.requests.at(1).find("continue=next"), std::string::npos);
  EXPECT_EQ(outcome.requests.at(2).substr(0, 17), "GET /api/v1/pods ");
}

TEST(RestClient, list_from_the_cache_is_not_paged) {
  const Outcome outcome = Against({Ok(R"({"metadata":{},"items":null})")}, List(api::kPods, "", {{"resourceVersion", "0"}}));
  ASSERT_TRUE(outcome.result);
  EXPECT_EQ((*outcome.result)["items"], json::array());
  EXPECT_EQ(outcome.requests.at(0).find("limit="), std::string::npos);
}

TEST(RestClient, list_with_fields_of_another_type_is_a_list_without_them) {
  const Outcome outcome = Against({Ok(R"({"metadata":{"continue":7},"items":"none"})")}, List(api::kPods));
  ASSERT_TRUE(outcome.result);
  EXPECT_EQ((*outcome.result)["items"], json::array());
}

TEST(RestClient, answer_that_is_no_json_is_an_error) {
  EXPECT_EQ(Against({Ok("<html>")}, Get(api::kPods, {"ns", "a"})).result.error().code, ErrorCode::kInternal);
  EXPECT_EQ(Against({Ok("[]")}, List(api::kPods)).result.error().code, ErrorCode::kInternal);
}

TEST(RestClient, warnings_are_logged_once) {
  ScriptedServer server({ScriptedServer::Answer(200, "{}", "Warning: 299 - \"old\"\r\n"),
                         ScriptedServer::Answer(200, "{}", "Warning: 299 - \"old\"\r\nWarning: 299 - \"older\"\r\n")});
  EventLoop loop;
  RestClient client(loop, {.server = server.Url()}, "test", 1);
  testing::internal::CaptureStderr();
  for (int i = 0; i < 2; ++i) {
    client.Call(Get(api::kPods, {"ns", "a"}), [&](Result<json>) { loop.Stop(); });
    loop.Run();
  }
  const std::string log = testing::internal::GetCapturedStderr();
  EXPECT_EQ(std::count(log.begin(), log.end(), '\n'), 2) << log;
}

TEST(RestClient, waiting_thread_is_freed_when_the_client_dies) {
  EventLoop loop;
  std::optional<RestClient> client(std::in_place, loop, ClientConfig{.server = "http://127.0.0.1:1"}, "test", 1);
  std::optional<Result<json>> answer;
  std::thread waiter([&] { answer = CallAndWait(*client, Get(api::kPods, {"ns", "a"})); });
  // The call has reached the client when this runs.
  loop.PostAfter(Duration(20), [&] { loop.Stop(); });
  loop.Run();
  client.reset();
  loop.Stop();
  loop.Run();
  waiter.join();
  EXPECT_EQ(answer->error().code, ErrorCode::kCancelled);
}

// The stream ends as the script says; events split by the chunks arrive whole.
TEST(RestClient, watch_gives_whole_events_and_may_be_dropped_by_its_handler) {
  const std::string head = "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n";
  const std::string stream = head + "6\r\n{\"a\":1\r\n7\r\n}\n{\"b\":\r\nc\r\n2}\n{\"c\":3}\n\n\r\n0\r\n\r\n";
  ScriptedServer server({stream, stream});
  EventLoop loop;
  RestClient client(loop, {.server = server.Url()}, "test", 1);
  std::vector<std::string> events;
  std::optional<Status> end;
  auto watch = client.Watch(
      {.type = api::kPods}, [&](std::string_view event) { events.emplace_back(event); },
      [&](Status status) {
        end = std::move(status);
        loop.Stop();
      });
  loop.Run();
  EXPECT_EQ(events, (std::vector<std::string>{"{\"a\":1}", "{\"b\":2}", "{\"c\":3}"}));
  EXPECT_TRUE(end->has_value());

  events.clear();
  watch = client.Watch(
      {.type = api::kPods},
      [&](std::string_view event) {
        events.emplace_back(event);
        watch.reset();
        loop.Stop();
      },
      [](Status) { FAIL() << "the stream was destroyed"; });
  loop.Run();
  EXPECT_EQ(events.size(), 1U);
}

TEST(RestClient, refused_watch_ends_with_the_servers_reason) {
  ScriptedServer server({ScriptedServer::Answer(429, R"({"reason":"TooManyRequests","message":"later"})", "Retry-After: 3\r\n")});
  EventLoop loop;
  RestClient client(loop, {.server = server.Url()}, "test", 1);
  std::optional<Status> end;
  auto watch = client.Watch(
      {.type = api::kPods}, [](std::string_view) {},
      [&](Status status) {
        end = std::move(status);
        loop.Stop();
      });
  loop.Run();
  EXPECT_EQ(end->error().code, ErrorCode::kTooManyRequests);
  EXPECT_EQ(end->error().retry_after, Duration(3000));
  EXPECT_EQ(end->error().message, "watch pods: later");
}

}  // namespace
}  // namespace cd::kube
