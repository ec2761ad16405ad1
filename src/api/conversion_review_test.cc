#include "src/api/conversion_review.h"

#include <gmock/gmock.h>

#include <nlohmann/json.hpp>

#include "src/api/conversion.h"

namespace cd::api {
namespace {

using nlohmann::json;
using testing::HasSubstr;
using testing::StartsWith;

json Object(const std::string& name, const char* version) {
  json object = json::object();
  object["apiVersion"] = version;
  object["kind"] = "ComputeDomain";
  object["metadata"]["name"] = name;
  object["metadata"]["namespace"] = "team";
  object["spec"]["channel"]["resourceClaimTemplate"]["name"] = "t";
  return object;
}

json Review(json objects, const char* desired = kV1Beta2) {
  json review = json::object();
  review["apiVersion"] = "apiextensions.k8s.io/v1";
  review["kind"] = "ConversionReview";
  review["request"]["uid"] = "u-1";
  review["request"]["desiredAPIVersion"] = desired;
  review["request"]["objects"] = std::move(objects);
  return review;
}

json ResponseTo(const json& review) {
  const ReviewAnswer answer = AnswerConversionReview(review.dump());
  EXPECT_EQ(answer.http_status, 200);
  const json body = json::parse(answer.body);
  EXPECT_EQ(body["apiVersion"], "apiextensions.k8s.io/v1");
  EXPECT_EQ(body["kind"], "ConversionReview");
  EXPECT_EQ(body["response"]["uid"], "u-1");
  return body["response"];
}

TEST(Review, answers_every_object_in_its_place) {
  json objects = json::array();
  objects.push_back(Object("a", kV1Beta1));
  objects.push_back(Object("b", kV1Beta2));
  objects.push_back(Object("c", kV1Beta1));
  const json response = ResponseTo(Review(objects));
  EXPECT_EQ(response["result"]["status"], "Success");
  ASSERT_EQ(response["convertedObjects"].size(), 3u);
  for (std::size_t i = 0; i < 3; ++i) {
    EXPECT_EQ(response["convertedObjects"][i]["metadata"], objects[i]["metadata"]);
    EXPECT_EQ(response["convertedObjects"][i]["apiVersion"], kV1Beta2);
  }
}

TEST(Review, of_nothing_is_answered_with_nothing) {
  const json response = ResponseTo(Review(json::array()));
  EXPECT_EQ(response["result"]["status"], "Success");
  EXPECT_EQ(response["convertedObjects"], json::array());
}

TEST(Review, fails_as_a_whole_and_names_the_object) {
  json objects = json::array();
  objects.push_back(Object("a", kV1Beta1));
  objects.push_back(Object("b", "resource.nvidia.com/v9"));
  const json response = ResponseTo(Review(objects));
  EXPECT_EQ(response["result"]["status"], "Failure");
  EXPECT_THAT(response["result"]["message"].get<std::string>(), StartsWith(R"(request.objects[1] "team/b": apiVersion: )"));
  EXPECT_EQ(response["convertedObjects"], json::array());
}

TEST(Review, to_an_unknown_version_fails) {
  json objects = json::array();
  objects.push_back(Object("a", kV1Beta1));
  EXPECT_THAT(ResponseTo(Review(objects, "v1"))["result"]["message"].get<std::string>(), HasSubstr("desiredAPIVersion"));
}

TEST(Review, without_a_list_fails) {
  EXPECT_THAT(ResponseTo(Review(7))["result"]["message"].get<std::string>(), StartsWith("request.objects"));
}

TEST(Review, what_is_no_review_is_a_bad_request) {
  json no_uid = Review(json::array());
  no_uid["request"].erase("uid");
  json other_kind = Review(json::array());
  other_kind["kind"] = "AdmissionReview";
  json no_request = Review(json::array());
  no_request["request"] = 7;
  const std::string deep = std::string(200, '[') + std::string(200, ']');
  for (const std::string& body :
       {std::string(), std::string("{"), std::string("[]"), no_uid.dump(), other_kind.dump(), no_request.dump(), deep}) {
    const ReviewAnswer answer = AnswerConversionReview(body);
    EXPECT_EQ(answer.http_status, 400) << body;
    EXPECT_NE(answer.body, "");
    EXPECT_EQ(answer.failure, answer.body);
  }
}

}  // namespace
}  // namespace cd::api
