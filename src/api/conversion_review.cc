#include "src/api/conversion_review.h"

#include <nlohmann/json.hpp>
#include <utility>

#include "src/api/conversion.h"
#include "src/base/json_reader.h"
#include "src/base/json_text.h"

namespace cd::api {

using nlohmann::json;

namespace {

constexpr char kReviewVersion[] = "apiextensions.k8s.io/v1";
constexpr char kReviewKind[] = "ConversionReview";
// managedFields of an object in a list in a review nest 14 levels.
constexpr int kMaxDepth = 64;

ReviewAnswer BadRequest(std::string why) {
  return {400, why, why};
}

ReviewAnswer Answer(json response, std::string failure) {
  json review = json::object();
  review["apiVersion"] = kReviewVersion;
  review["kind"] = kReviewKind;
  review["response"] = std::move(response);
  return {200, review.dump(-1, ' ', false, json::error_handler_t::replace), std::move(failure)};
}

std::string NameOfObject(const json& object) {
  const json& metadata = MemberOf(object, "metadata");
  return Quoted(TextOf(metadata, "namespace") + "/" + TextOf(metadata, "name"));
}

}  // namespace

ReviewAnswer AnswerConversionReview(std::string_view body) {
  auto review = ParseJson(body, kLongestReview, kMaxDepth);
  if (!review) return BadRequest("body: " + review.error().message);
  if (TextOf(*review, "kind") != kReviewKind || TextOf(*review, "apiVersion") != kReviewVersion)
    return BadRequest("body: must be a ConversionReview of apiextensions.k8s.io/v1");
  const auto request = review->find("request");
  if (request == review->end() || TextOf(*request, "uid").empty()) return BadRequest("request.uid: must be present");
  json response = json::object();
  response["uid"] = TextOf(*request, "uid");
  const std::string desired = TextOf(*request, "desiredAPIVersion");
  json converted = json::array();
  std::string failure;
  if (const auto objects = request->find("objects"); objects != request->end() && objects->is_array()) {
    for (json& object : *objects) {
      const std::string name = NameOfObject(object);
      auto result = ConvertComputeDomain(std::move(object), desired);
      if (!result) {
        failure = "request.objects[" + std::to_string(converted.size()) + "] " + name + ": " + result.error().message;
        break;
      }
      converted.push_back(*std::move(result));
    }
  } else {
    failure = "request.objects: must be a list";
  }
  if (failure.empty()) {
    response["result"]["status"] = "Success";
    response["convertedObjects"] = std::move(converted);
  } else {
    response["result"]["status"] = "Failure";
    response["result"]["message"] = failure;
    response["convertedObjects"] = json::array();
  }
  return Answer(std::move(response), std::move(failure));
}

}  // namespace cd::api
