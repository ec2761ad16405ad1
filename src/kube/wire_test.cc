// What goes over the wire and what comes back: requests, frames, errors.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <nlohmann/json.hpp>

#include "src/kube/frame_splitter.h"
#include "src/kube/request_encoding.h"
#include "src/kube/status_error.h"

namespace cd::kube {
namespace {

using nlohmann::json;
using testing::Contains;

HttpRequest Wire(const ApiRequest& request) {
  return Encode(request, "https://host:1", "secret");
}

TEST(Requests, paths_of_core_and_group_resources) {
  EXPECT_EQ(Wire(Get(api::kNodes, {"", "n1"})).url, "https://host:1/api/v1/nodes/n1");
  EXPECT_EQ(Wire(List(api::kPods)).url, "https://host:1/api/v1/pods");
  EXPECT_EQ(Wire(List(api::kPods, "ns", {{"labelSelector", "a=b,c"}})).url,
            "https://host:1/api/v1/namespaces/ns/pods?labelSelector=a%3Db%2Cc");
  EXPECT_EQ(Wire(Update(api::kImexNodes, {{"metadata", {{"name", "n1"}}}}, "status")).url,
            "https://host:1/apis/resource.nvidia.com/v1alpha1/imexnodes/n1/status");
  EXPECT_EQ(Encode(WatchRequest{.type = api::kLeases, .ns = "x", .query = {{"resourceVersion", "7"}}}, "https://host:1", "").url,
            "https://host:1/apis/coordination.k8s.io/v1/namespaces/x/leases?resourceVersion=7&watch=true");
}

TEST(Requests, every_component_is_escaped) {
  EXPECT_EQ(Wire(Get(api::kPods, {"../x", "a/b?c=d#e%"})).url,
            "https://host:1/api/v1/namespaces/..%2Fx/pods/a%2Fb%3Fc%3Dd%23e%25");
}

TEST(Requests, methods_and_content_types) {
  const json object = {{"metadata", {{"namespace", "ns"}, {"name", "a"}}}};
  EXPECT_EQ(Wire(Create(api::kPods, "ns", object)).method, "POST");
  EXPECT_EQ(Wire(Update(api::kPods, object)).method, "PUT");
  EXPECT_EQ(Wire(Delete(api::kPods, {"ns", "a"})).method, "DELETE");
  EXPECT_THAT(Wire(Create(api::kPods, "ns", object)).headers, Contains("Content-Type: application/json"));
  EXPECT_THAT(Wire(MergePatch(api::kPods, {"ns", "a"}, object)).headers, Contains("Content-Type: application/merge-patch+json"));
  EXPECT_THAT(Wire(JsonPatch(api::kPods, {"ns", "a"}, json::array())).headers,
              Contains("Content-Type: application/json-patch+json"));
  EXPECT_THAT(Wire(Get(api::kPods, {"ns", "a"})).headers, Contains("Accept: application/json"));
  EXPECT_THAT(Wire(Get(api::kPods, {"ns", "a"})).headers, Contains("Authorization: Bearer secret"));
}

TEST(Requests, type_is_filled_in_and_preconditions_make_a_write_repeatable) {
  const json bare = {{"metadata", {{"namespace", "ns"}, {"name", "a"}}}};
  json versioned = bare;
  versioned["metadata"]["resourceVersion"] = "7";
  EXPECT_EQ(json::parse(Create(api::kLeases, "ns", bare).body)["apiVersion"], "coordination.k8s.io/v1");
  EXPECT_EQ(json::parse(Create(api::kLeases, "ns", bare).body)["kind"], "Lease");
  EXPECT_FALSE(Create(api::kLeases, "ns", bare).safe_to_repeat);
  EXPECT_FALSE(Update(api::kLeases, bare).safe_to_repeat);
  EXPECT_TRUE(Update(api::kLeases, versioned).safe_to_repeat);
  EXPECT_FALSE(MergePatch(api::kLeases, {"ns", "a"}, bare).safe_to_repeat);
  EXPECT_TRUE(MergePatch(api::kLeases, {"ns", "a"}, versioned).safe_to_repeat);
  EXPECT_FALSE(Delete(api::kLeases, {"ns", "a"}).safe_to_repeat);
  EXPECT_EQ(json::parse(Delete(api::kLeases, {"ns", "a"}, "u", "7").body)["preconditions"],
            json({{"uid", "u"}, {"resourceVersion", "7"}}));
  EXPECT_TRUE(Delete(api::kLeases, {"ns", "a"}, "u").safe_to_repeat);
  EXPECT_TRUE(JsonPatch(api::kLeases, {"ns", "a"}, json::array({{{"op", "test"}}})).safe_to_repeat);
  EXPECT_FALSE(JsonPatch(api::kLeases, {"ns", "a"}, json::array({{{"op", "add"}}})).safe_to_repeat);
}

TEST(Requests, foreign_bytes_do_not_throw) {
  EXPECT_FALSE(Create(api::kPods, "ns", {{"x", "\xff"}}).body.empty());
}

std::vector<std::string> Frames(FrameSplitter& splitter, std::string_view bytes) {
  EXPECT_TRUE(splitter.Feed(bytes));
  std::vector<std::string> out;
  for (std::string_view frame = splitter.Next(); !frame.empty(); frame = splitter.Next()) out.emplace_back(frame);
  return out;
}

TEST(Frames, any_split_gives_the_same_objects) {
  const std::string stream = "{\"a\":1}\n\n{\"b\":\"x\\ny\"}\r\n{}\n";
  for (std::size_t step = 1; step <= stream.size(); ++step) {
    FrameSplitter splitter(100);
    std::vector<std::string> all;
    for (std::size_t at = 0; at < stream.size(); at += step) {
      for (auto& frame : Frames(splitter, std::string_view(stream).substr(at, step))) all.push_back(frame);
    }
    EXPECT_EQ(all, (std::vector<std::string>{"{\"a\":1}", "{\"b\":\"x\\ny\"}", "{}"})) << step;
  }
}

TEST(Frames, limit_holds_for_one_frame_not_for_the_stream) {
  FrameSplitter splitter(10);
  for (int i = 0; i < 100; ++i) EXPECT_EQ(Frames(splitter, "1234567\n").size(), 1U);
  EXPECT_TRUE(splitter.Feed("1234567890"));
  EXPECT_FALSE(splitter.Feed("1"));
}

TEST(Frames, limit_holds_for_a_frame_that_comes_whole_too) {
  FrameSplitter splitter(10);
  EXPECT_TRUE(splitter.Feed("1234567890\n"));
  EXPECT_FALSE(splitter.Feed("12345678901\n"));
}

struct StatusCase {
  int http;
  const char* reason;
  ErrorCode code;
};

TEST(Errors, reason_decides_then_the_http_code) {
  for (const StatusCase& c : {StatusCase{404, "NotFound", ErrorCode::kNotFound},
                              {409, "AlreadyExists", ErrorCode::kAlreadyExists},
                              {409, "Conflict", ErrorCode::kConflict},
                              {410, "Expired", ErrorCode::kExpired},
                              {410, "Gone", ErrorCode::kExpired},
                              {422, "Invalid", ErrorCode::kInvalidArgument},
                              {403, "Forbidden", ErrorCode::kForbidden},
                              {401, "Unauthorized", ErrorCode::kUnauthorized},
                              {429, "TooManyRequests", ErrorCode::kTooManyRequests},
                              {500, "ServerTimeout", ErrorCode::kUnavailable},
                              {504, "Timeout", ErrorCode::kUnavailable},
                              {409, "", ErrorCode::kConflict},
                              {503, "", ErrorCode::kUnavailable},
                              {415, "", ErrorCode::kInvalidArgument}}) {
    const Error error = StatusError(json{{"reason", c.reason}, {"message", "m"}}, c.http);
    EXPECT_EQ(error.code, c.code) << c.http << c.reason;
    EXPECT_EQ(error.message, "m");
  }
}

TEST(Errors, error_event_carries_its_code_inside) {
  EXPECT_EQ(StatusError(json{{"code", 410}, {"message", "too old"}}, 200).code, ErrorCode::kExpired);
}

TEST(Errors, version_from_the_future_is_like_one_too_old) {
  const json status = {{"reason", "Timeout"},
                       {"details", {{"causes", {{{"reason", "ResourceVersionTooLarge"}}}}, {"retryAfterSeconds", 1}}}};
  EXPECT_EQ(StatusError(status, 504).code, ErrorCode::kExpired);
  EXPECT_EQ(StatusError(status, 504).retry_after, Duration(1000));
}

TEST(Errors, answer_that_is_no_status_still_is_an_error) {
  for (const char* body : {"", "<html>", "[]", "null", "{\"details\":7}", "{\"details\":{\"causes\":3}}", "{\"reason\":1}"}) {
    const Error error = AnswerError(body, 502);
    EXPECT_EQ(error.code, ErrorCode::kUnavailable) << body;
    EXPECT_NE(error.message.find("502"), std::string::npos) << body;
    EXPECT_FALSE(HasCauses(body)) << body;
  }
}

}  // namespace
}  // namespace cd::kube
