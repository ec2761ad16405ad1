// What each version says of the same ComputeDomain. That nothing is lost either way is conversion_round_trip_test.cc.
#include "src/api/conversion.h"

#include <gmock/gmock.h>

#include <nlohmann/json.hpp>

namespace cd::api {
namespace {

using nlohmann::json;

json Parse(const char* text) {
  return json::parse(text);
}

json Convert(const json& object, const char* version) {
  auto converted = ConvertComputeDomain(object, version);
  EXPECT_TRUE(converted) << (converted ? "" : converted.error().message);
  return converted ? *converted : json();
}

json Old(const char* spec, const char* annotation = "") {
  json object = Parse(R"({"apiVersion":"resource.nvidia.com/v1beta1","kind":"ComputeDomain","metadata":{"name":"cd"}})");
  object["spec"] = Parse(spec);
  if (*annotation != '\0') object["metadata"]["annotations"][kV1Beta2Fields] = annotation;
  return object;
}

json New(const char* spec) {
  json object = Parse(R"({"apiVersion":"resource.nvidia.com/v1beta2","kind":"ComputeDomain","metadata":{"name":"cd"}})");
  object["spec"] = Parse(spec);
  return object;
}

constexpr char kChannel[] = R"({"numNodes":0,"channel":{"resourceClaimTemplate":{"name":"t"},"allocationMode":"Single"}})";
constexpr char kAll[] = R"({"numNodes":0,"channel":{"resourceClaimTemplate":{"name":"t"},"allocationMode":"All"}})";

TEST(Conversion, a_v1beta1_object_runs_on_nodes_without_fabric_too_and_shares_its_domain) {
  EXPECT_EQ(Convert(Old(kChannel), kV1Beta2), New(R"({"channel":{"resourceClaimTemplate":{"name":"t"},"allocationMode":"Single"},
                    "isolationMode":"Channel","partitionPolicy":"Any","fabricPolicy":"Optional"})"));
}

TEST(Conversion, all_channels_mean_a_domain_of_its_own) {
  EXPECT_EQ(Convert(Old(kAll), kV1Beta2)["spec"]["isolationMode"], "Domain");
}

TEST(Conversion, number_of_nodes_stands_in_an_annotation) {
  const json stored = Convert(Old(R"({"numNodes":4,"channel":{"resourceClaimTemplate":{"name":"t"}}})"), kV1Beta2);
  EXPECT_EQ(stored["metadata"]["annotations"][kV1Beta1Fields], R"({"numNodes":4})");
  EXPECT_FALSE(stored["spec"].contains("numNodes"));
}

TEST(Conversion, what_v1beta1_cannot_say_stands_in_an_annotation_of_it) {
  const json old = Convert(New(R"({"channel":{"resourceClaimTemplate":{"name":"t"},"allocationMode":"Single"},
        "isolationMode":"Channel","partitionPolicy":"Single","fabricPolicy":"Required","gating":{"minNodes":4}})"),
                           kV1Beta1);
  EXPECT_EQ(old["metadata"]["annotations"][kV1Beta2Fields],
            R"({"fabricPolicy":"Required","gating":{"minNodes":4},"partitionPolicy":"Single"})");
  EXPECT_EQ(old["spec"], Parse(kChannel));
}

TEST(Conversion, a_v1beta1_user_opts_in_by_the_annotation_and_reads_it_again_as_written) {
  const json old = Old(kChannel, R"({ "gating": {"minNodes": 2}, "isolationMode": "Channel" })");
  const json stored = Convert(old, kV1Beta2);
  EXPECT_EQ(stored["spec"]["gating"], Parse(R"({"minNodes":2,"settleSeconds":5,"timeoutSeconds":600,"onTimeout":"Fail"})"));
  EXPECT_EQ(stored["spec"]["fabricPolicy"], "Optional") << "what it does not name means what v1beta1 means";
  EXPECT_FALSE(stored["metadata"]["annotations"].contains(kV1Beta2Fields));
  EXPECT_EQ(Convert(stored, kV1Beta1), old);
}

TEST(Conversion, gating_changed_since_shows_in_the_annotation) {
  json stored = Convert(Old(kChannel, R"({ "gating": {"minNodes": 2} })"), kV1Beta2);
  stored["spec"]["gating"]["minNodes"] = 3;
  EXPECT_EQ(Convert(stored, kV1Beta1)["metadata"]["annotations"][kV1Beta2Fields],
            R"({"gating":{"minNodes":3,"onTimeout":"Fail","settleSeconds":5,"timeoutSeconds":600}})");
}

class NoFields : public testing::TestWithParam<const char*> {};

TEST_P(NoFields, count_as_absent_and_stay_where_admission_sees_them) {
  const json old = Old(kChannel, GetParam());
  const json stored = Convert(old, kV1Beta2);
  EXPECT_EQ(stored["spec"], Convert(Old(kChannel), kV1Beta2)["spec"]);
  EXPECT_EQ(stored["metadata"], old["metadata"]);
  EXPECT_EQ(Convert(stored, kV1Beta1), old);
}

INSTANTIATE_TEST_SUITE_P(, NoFields,
                         testing::Values("{", "[]", "7", R"({"gating":{"minNodes":0}})", R"({"gating":{"minNodes":2.5}})",
                                         R"({"gating":{"nodes":2}})", R"({"gating":{"minNodes":18446744073709551615}})",
                                         R"({"gating":[]})", R"({"gating":{"onTimeout":"fail"}})",
                                         R"({"fabricPolicy":"required"})", R"({"channel":{}})", R"({"numNodes":3})",
                                         R"({"imex":{"logLevel":2}})", R"({"isolationMode":"Domain","imex":{}})",
                                         R"({"isolationMode":"Domain","imex":{"logLevel":5}})",
                                         R"({"isolationMode":"Domain","imex":{"waitForQuorum":"SOME"}})"));

TEST(Conversion, all_channels_of_a_shared_domain_are_not_asked_for_by_annotation) {
  const json stored = Convert(Old(kAll, R"({"isolationMode":"Channel"})"), kV1Beta2);
  EXPECT_EQ(stored["spec"]["isolationMode"], "Domain");
  EXPECT_TRUE(stored["metadata"]["annotations"].contains(kV1Beta2Fields));
}

TEST(Conversion, status_is_what_each_version_documents_and_all_of_it_is_carried) {
  json stored = Convert(Old(R"({"numNodes":2,"channel":{"resourceClaimTemplate":{"name":"t"}}})"), kV1Beta2);
  stored["status"] =
      Parse(R"({"conditions":[{"type":"Ready","status":"True"}],"nodeSummary":{"total":2,"ready":2},"partition":"c.1",
    "members":[{"node":"a","cliqueID":"c.1","address":"10.0.0.1","index":1,"ready":true},
               {"node":"b","cliqueID":"c.1","address":"10.0.0.2","index":0,"ready":false}]})");
  const json old = Convert(stored, kV1Beta1);
  EXPECT_EQ(old["status"]["status"], "Ready");
  EXPECT_EQ(old["status"]["nodes"], Parse(R"([{"name":"a","cliqueID":"c.1","ipAddress":"10.0.0.1","index":1,"status":"Ready"},
                      {"name":"b","cliqueID":"c.1","ipAddress":"10.0.0.2","index":0,"status":"NotReady"}])"));
  EXPECT_EQ(Convert(old, kV1Beta2), stored);
  stored["status"]["nodeSummary"]["ready"] = 1;
  EXPECT_EQ(Convert(stored, kV1Beta1)["status"]["status"], "NotReady") << "numNodes are two";
}

TEST(Conversion, status_stored_by_another_driver_becomes_members) {
  json old = Old(kChannel);
  old["status"] = Parse(R"({"status":"Ready","more":1,"nodes":[{"name":"a","cliqueID":"c.1","ipAddress":"10.0.0.1","index":3,
                            "status":"Ready"},null,{"name":"b"}]})");
  EXPECT_EQ(Convert(old, kV1Beta2)["status"], Parse(R"({"nodeSummary":{"total":2,"ready":1},"members":[
                       {"node":"a","cliqueID":"c.1","address":"10.0.0.1","index":3,"ready":true},
                       {"node":"b","cliqueID":"","address":"","index":0,"ready":false}]})"));
}

// Stored years ago, or by somebody who wrote little.
TEST(Conversion, what_is_not_there_is_not_missed) {
  for (const char* rest : {R"({})", R"({"spec":null})", R"({"spec":{}})", R"({"status":null})", R"({"status":{"nodes":null}})",
                           R"({"spec":{"channel":null}})", R"({"spec":[],"status":"?"})"}) {
    json object = Parse(R"({"apiVersion":"resource.nvidia.com/v1beta1","kind":"ComputeDomain","metadata":{"name":"cd"}})");
    object.update(Parse(rest));
    const json stored = Convert(object, kV1Beta2);
    EXPECT_EQ(stored["apiVersion"], kV1Beta2);
    EXPECT_EQ(Convert(stored, kV1Beta1)["metadata"], object["metadata"]) << rest;
  }
}

TEST(Conversion, same_version_is_untouched) {
  const json odd = Old(R"({"what":"ever"})", "{");
  EXPECT_EQ(Convert(odd, kV1Beta1), odd);
}

TEST(Conversion, what_is_no_compute_domain_is_refused_by_the_field_that_says_so) {
  const auto refusal = [](const char* text, const char* version) {
    const auto converted = ConvertComputeDomain(Parse(text), version);
    return converted ? "" : converted.error().message;
  };
  EXPECT_THAT(refusal("[]", kV1Beta2), testing::HasSubstr("object"));
  EXPECT_THAT(refusal(R"({"kind":"Pod"})", kV1Beta2), testing::StartsWith("kind: "));
  EXPECT_THAT(refusal(R"({"kind":"ComputeDomain","apiVersion":"v1"})", kV1Beta2), testing::StartsWith("apiVersion: "));
  EXPECT_THAT(refusal(R"({"kind":"ComputeDomain","apiVersion":"resource.nvidia.com/v1beta1"})", kV1Beta2),
              testing::StartsWith("metadata: "));
  EXPECT_THAT(refusal("{}", "resource.nvidia.com/v1"), testing::StartsWith("desiredAPIVersion: "));
}

}  // namespace
}  // namespace cd::api
