#include <nlohmann/json.hpp>

#include "src/api/conversion.h"
#include "src/api/conversion_review.h"
#include "src/base/json_text.h"
#include "tests/fuzz/fuzz.h"

namespace cd::fuzz {

using nlohmann::json;

namespace {

// A stored object is read and written back by a client of v1beta1: its spec stays.
void RequireStable(const json& stored) {
  if (TextOf(stored, "apiVersion") != api::kV1Beta2) return;
  const auto seen = api::ConvertComputeDomain(stored, api::kV1Beta1);
  Require(seen.has_value(), "what was converted can be converted back");
  const auto back = api::ConvertComputeDomain(*seen, api::kV1Beta2);
  Require(back && MemberOf(*back, "spec") == MemberOf(stored, "spec"), "a spec survives the other version");
  Require(MemberOf(*back, "status") == MemberOf(stored, "status"), "a status survives the other version");
}

}  // namespace

void ConversionReview(std::string_view input) {
  const api::ReviewAnswer answer = api::AnswerConversionReview(input);
  if (answer.http_status == 400) {
    Require(!answer.failure.empty(), "a refusal has words");
    return RequirePrintable(answer.failure, 400);
  }
  Require(answer.http_status == 200, "a review is answered, or a bad request");
  const json request = json::parse(input)["request"];
  const json response = json::parse(answer.body)["response"];
  Require(response["uid"] == request["uid"], "the answer is to this request");
  if (response["result"]["status"] != "Success") {
    Require(!answer.failure.empty() && response["convertedObjects"].empty(), "a failure has words and no objects");
    return RequirePrintable(answer.failure, 1'000);
  }
  const json& before = request["objects"];
  const json& after = response["convertedObjects"];
  Require(after.size() == before.size(), "every object is answered");
  for (std::size_t i = 0; i < after.size(); ++i) {
    Require(after[i]["apiVersion"] == request["desiredAPIVersion"], "it has the version that was asked for");
    Require(TextOf(after[i], "kind") == TextOf(before[i], "kind"), "the kind stays");
    Require(TextOf(MemberOf(after[i], "metadata"), "name") == TextOf(MemberOf(before[i], "metadata"), "name"), "the order stays");
    if (TextOf(before[i], "apiVersion") == api::kV1Beta1) RequireStable(after[i]);
  }
}

}  // namespace cd::fuzz
