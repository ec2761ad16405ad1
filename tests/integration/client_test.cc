// The client's verbs against a real API server: what each answer becomes.
#include <gtest/gtest.h>

#include <atomic>
#include <mutex>
#include <nlohmann/json.hpp>

#include "tests/integration/cluster.h"

namespace cd::integration {
namespace {

using nlohmann::json;

json ConfigMap(const std::string& name, const std::string& value) {
  return {{"metadata", {{"name", name}}}, {"data", {{"key", value}}}};
}

class Client : public testing::Test {
 protected:
  Connection connection_;
  std::string ns_ = MakeNamespace(connection_);

  json MustCall(kube::ApiRequest request) {
    auto answer = connection_.Call(std::move(request));
    EXPECT_TRUE(answer) << answer.error().message;
    return answer.value_or(json::object());
  }
  ErrorCode CodeOf(kube::ApiRequest request) {
    auto answer = connection_.Call(std::move(request));
    EXPECT_FALSE(answer);
    if (answer) return ErrorCode::kInternal;
    last_message_ = answer.error().message;
    return answer.error().code;
  }
  std::string last_message_;
};

TEST_F(Client, object_lives_through_create_get_update_patch_delete) {
  MustCall(kube::Create(kConfigMaps, ns_, ConfigMap("a", "1")));
  json object = MustCall(kube::Get(kConfigMaps, {ns_, "a"}));
  EXPECT_EQ(object["data"]["key"], "1");
  object["data"]["key"] = "2";
  object = MustCall(kube::Update(kConfigMaps, object));
  EXPECT_EQ(object["data"]["key"], "2");
  object = MustCall(kube::MergePatch(kConfigMaps, {ns_, "a"}, {{"data", {{"other", "x"}}}}));
  EXPECT_EQ(object["data"], json({{"key", "2"}, {"other", "x"}}));
  object = MustCall(kube::JsonPatch(kConfigMaps, {ns_, "a"}, json::array({{{"op", "remove"}, {"path", "/data/other"}}})));
  EXPECT_EQ(object["data"], json({{"key", "2"}}));
  MustCall(kube::Delete(kConfigMaps, {ns_, "a"}, object["metadata"]["uid"]));
  EXPECT_EQ(CodeOf(kube::Get(kConfigMaps, {ns_, "a"})), ErrorCode::kNotFound);
}

TEST_F(Client, apply_creates_and_releases_what_it_leaves_out) {
  kube::ApiRequest apply{.verb = kube::Verb::kPatch, .type = kConfigMaps, .key = {ns_, "a"}};
  apply.patch_type = kube::PatchType::kApply;
  apply.query = {{"fieldManager", "test"}, {"force", "true"}};
  apply.body = R"({"apiVersion":"v1","kind":"ConfigMap","metadata":{"name":"a"},"data":{"x":"1","y":"2"}})";
  MustCall(apply);
  apply.body = R"({"apiVersion":"v1","kind":"ConfigMap","metadata":{"name":"a"},"data":{"x":"1"}})";
  EXPECT_EQ(MustCall(apply)["data"], json({{"x", "1"}}));
}

TEST_F(Client, errors_have_the_code_that_tells_what_to_do) {
  json object = MustCall(kube::Create(kConfigMaps, ns_, ConfigMap("a", "1")));
  EXPECT_EQ(CodeOf(kube::Create(kConfigMaps, ns_, ConfigMap("a", "1"))), ErrorCode::kAlreadyExists);
  MustCall(kube::MergePatch(kConfigMaps, {ns_, "a"}, {{"data", {{"key", "2"}}}}));
  EXPECT_EQ(CodeOf(kube::Update(kConfigMaps, object)), ErrorCode::kConflict);
  EXPECT_EQ(CodeOf(kube::Delete(kConfigMaps, {ns_, "a"}, "0f8fad5b-d9cb-469f-a165-70867728950e")), ErrorCode::kConflict);
  EXPECT_EQ(CodeOf(kube::Create(kConfigMaps, ns_, ConfigMap("Not_A_Name", "1"))), ErrorCode::kInvalidArgument);
  EXPECT_NE(last_message_.find("metadata.name"), std::string::npos) << last_message_;
  EXPECT_EQ(CodeOf(kube::Delete(kConfigMaps, {ns_, "gone"})), ErrorCode::kNotFound);
  EXPECT_NE(last_message_.find("delete configmaps " + ns_ + "/gone"), std::string::npos) << last_message_;
}

TEST_F(Client, failed_test_of_a_json_patch_is_a_conflict) {
  MustCall(kube::Create(kConfigMaps, ns_, ConfigMap("a", "1")));
  const json patch =
      json::array({{{"op", "test"}, {"path", "/data/key"}, {"value", "other"}}, {{"op", "remove"}, {"path", "/data/key"}}});
  EXPECT_EQ(CodeOf(kube::JsonPatch(kConfigMaps, {ns_, "a"}, patch)), ErrorCode::kConflict) << last_message_;
}

TEST_F(Client, names_cannot_leave_their_place_in_the_path) {
  EXPECT_EQ(CodeOf(kube::Get(kConfigMaps, {ns_, "../../../nodes"})), ErrorCode::kNotFound);
  EXPECT_EQ(CodeOf(kube::Get(kConfigMaps, {ns_, "a?watch=true"})), ErrorCode::kNotFound);
}

TEST_F(Client, list_follows_pages_to_the_end) {
  for (int i = 0; i < 7; ++i) MustCall(kube::Create(kConfigMaps, ns_, ConfigMap("a" + std::to_string(i), "1")));
  const json list = MustCall(kube::List(kConfigMaps, ns_, {{"limit", "3"}, {"fieldSelector", "metadata.name!=a3"}}));
  std::vector<std::string> names;
  for (const json& item : list["items"]) names.push_back(item["metadata"]["name"]);
  EXPECT_EQ(names, (std::vector<std::string>{"a0", "a1", "a2", "a4", "a5", "a6"}));
  EXPECT_FALSE(list["metadata"]["resourceVersion"].get<std::string>().empty());
}

TEST_F(Client, credentials_decide) {
  kube::ClientConfig config = Cluster::Get().Config();
  config.token = "nobody";
  Connection nobody(config);
  EXPECT_EQ(nobody.Call(kube::List(kConfigMaps, ns_)).error().code, ErrorCode::kForbidden);
  config.token = "wrong";
  Connection stranger(config);
  EXPECT_EQ(stranger.Call(kube::List(kConfigMaps, ns_)).error().code, ErrorCode::kUnauthorized);
}

TEST_F(Client, server_with_another_certificate_is_not_believed) {
  kube::ClientConfig config = Cluster::Get().Config();
  config.tls.server_name = "another.example";
  Connection connection(config);
  kube::ApiRequest request = kube::List(kConfigMaps, ns_);
  request.timeout = Duration(2'000);
  EXPECT_EQ(connection.Call(request).error().code, ErrorCode::kUnavailable);
  config.tls.server_name = "kubernetes.default.svc";
  Connection named(config);
  EXPECT_TRUE(named.Call(kube::List(kConfigMaps, ns_)));
}

// What a watch said, gathered on the loop's thread.
struct WatchLog {
  std::mutex mutex;
  std::vector<std::string> types;
  std::optional<Status> end;

  std::vector<std::string> Types() {
    std::lock_guard lock(mutex);
    return types;
  }
  std::optional<Status> End() {
    std::lock_guard lock(mutex);
    return end;
  }
};

std::unique_ptr<kube::WatchStream> StartWatch(Connection& connection, WatchLog& log, kube::WatchRequest request) {
  std::unique_ptr<kube::WatchStream> stream;
  connection.OnLoop([&] {
    stream = connection.client->Watch(
        std::move(request),
        [&log](std::string_view event) {
          std::lock_guard lock(log.mutex);
          log.types.push_back(json::parse(event)["type"]);
        },
        [&log](Status status) {
          std::lock_guard lock(log.mutex);
          log.end = std::move(status);
        });
  });
  return stream;
}

TEST_F(Client, watch_tells_changes_until_the_server_ends_it) {
  const json list = MustCall(kube::List(kConfigMaps, ns_));
  WatchLog log;
  auto stream = StartWatch(connection_, log,
                           {.type = kConfigMaps,
                            .ns = ns_,
                            .query = {{"resourceVersion", list["metadata"]["resourceVersion"]}, {"timeoutSeconds", "3"}}});
  MustCall(kube::Create(kConfigMaps, ns_, ConfigMap("a", "1")));
  MustCall(kube::MergePatch(kConfigMaps, {ns_, "a"}, {{"data", {{"key", "2"}}}}));
  MustCall(kube::Delete(kConfigMaps, {ns_, "a"}));
  EXPECT_TRUE(Eventually([&] { return log.End().has_value(); }));
  EXPECT_EQ(log.Types(), (std::vector<std::string>{"ADDED", "MODIFIED", "DELETED"}));
  EXPECT_TRUE(log.End()->has_value());
  connection_.OnLoop([&] { stream.reset(); });
}

TEST_F(Client, watch_of_a_forgotten_version_is_told_so) {
  const json list = MustCall(kube::List(kConfigMaps, ns_));
  MustCall(kube::Create(kConfigMaps, ns_, ConfigMap("a", "1")));
  Cluster::Get().KillApiServer();
  Cluster::Get().CompactEtcd();
  Cluster::Get().StartApiServer();
  WatchLog log;
  auto stream = StartWatch(connection_, log,
                           {.type = kConfigMaps, .ns = ns_, .query = {{"resourceVersion", list["metadata"]["resourceVersion"]}}});
  EXPECT_TRUE(Eventually([&] { return log.End().has_value() || !log.Types().empty(); }));
  EXPECT_EQ(log.Types(), std::vector<std::string>{"ERROR"});
  connection_.OnLoop([&] { stream.reset(); });
}

TEST_F(Client, silent_watch_ends_at_its_idle_limit) {
  WatchLog log;
  const json list = MustCall(kube::List(kConfigMaps, ns_));
  auto stream = StartWatch(connection_, log,
                           {.type = kConfigMaps,
                            .ns = ns_,
                            .query = {{"resourceVersion", list["metadata"]["resourceVersion"]}},
                            .idle_timeout = Duration(500)});
  EXPECT_TRUE(Eventually([&] { return log.End().has_value(); }));
  ASSERT_FALSE(log.End()->has_value());
  EXPECT_EQ(log.End()->error().code, ErrorCode::kDeadlineExceeded);
  connection_.OnLoop([&] { stream.reset(); });
}

TEST_F(Client, many_calls_at_once_are_all_answered) {
  std::atomic<int> answered = 0;
  for (int i = 0; i < 200; ++i) {
    connection_.client->Call(kube::Get(kConfigMaps, {ns_, "none"}), [&](Result<json> answer) {
      if (!answer && answer.error().code == ErrorCode::kNotFound) ++answered;
    });
  }
  EXPECT_TRUE(Eventually([&] { return answered == 200; }));
}

TEST_F(Client, call_made_while_the_server_is_down_is_answered_when_it_is_back) {
  Cluster::Get().KillApiServer();
  std::atomic<bool> created = false;
  kube::ApiRequest request = kube::Create(kConfigMaps, ns_, ConfigMap("a", "1"));
  request.timeout = std::chrono::minutes(2);
  std::string error;
  std::thread caller([&] {
    // A server that listens but is not ready yet refuses with errors that are not for the client to hide.
    EXPECT_TRUE(Eventually([&] {
      auto answer = connection_.Call(request);
      if (!answer) error = answer.error().message;
      return answer.has_value();
    }));
    created = true;
  });
  Cluster::Get().StartApiServer();
  caller.join();
  EXPECT_TRUE(created) << error;
}

}  // namespace
}  // namespace cd::integration
