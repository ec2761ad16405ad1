// Both versions of ComputeDomain on a real API server that converts through the webhook: what clients of one version do must not
// be lost on those of the other, and what is fixed is fixed in both.
#include <gmock/gmock.h>

#include <fstream>
#include <nlohmann/json.hpp>

#include "src/api/conversion.h"
#include "src/base/log.h"
#include "src/base/temp_dir.h"
#include "src/webhook/webhook.h"
#include "tests/integration/cluster.h"

namespace cd::integration {
namespace {

using nlohmann::json;
using testing::HasSubstr;

const api::ResourceType kV1Beta1{"resource.nvidia.com", "v1beta1", "ComputeDomain", "computedomains", true};
const api::ResourceType& kV1Beta2 = api::kComputeDomains;
const api::ResourceType kPolicies{"admissionregistration.k8s.io", "v1", "ValidatingAdmissionPolicy",
                                  "validatingadmissionpolicies", false};
const api::ResourceType kBindings{"admissionregistration.k8s.io", "v1", "ValidatingAdmissionPolicyBinding",
                                  "validatingadmissionpolicybindings", false};
constexpr char kPolicy[] = "compute-domain-computedomains";

// The webhook, on a loop of its own.
class WebhookProcess {
 public:
  WebhookProcess() {
    const WallTime now = SystemClock().WallNow();
    const webhook::Lifetime day{now - std::chrono::hours(1), now + std::chrono::hours(23)};
    const auto authority = webhook::MakeAuthority("test", day).value();
    // An address as a name of the certificate would need another kind of entry; localhost is one of the machine's.
    const auto identity = webhook::IssueServer(authority, {"localhost"}, day).value();
    std::ofstream(dir_.path() / "tls.crt") << identity.certificate;
    std::ofstream(dir_.path() / "tls.key") << identity.key;
    ca_bundle = authority.certificate;
    webhook::WebhookOptions options;
    options.tls_dir = dir_.path();
    options.https.address = "127.0.0.1";
    webhook_ = std::make_unique<webhook::Webhook>(loop_, options);
    EXPECT_EQ(webhook_->WhyNotReady(), "");
    EXPECT_TRUE(webhook_->Listen());
  }
  std::string Url() const { return "https://localhost:" + std::to_string(webhook_->port()) + "/convert"; }

  std::string ca_bundle;

 private:
  TempDir dir_;
  EventLoop loop_;
  std::unique_ptr<webhook::Webhook> webhook_;
};

std::string Base64(const std::string& bytes) {
  constexpr char kDigits[] = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
  std::string out;
  for (std::size_t i = 0; i < bytes.size(); i += 3) {
    unsigned value = 0;
    for (std::size_t j = 0; j < 3; ++j)
      value = value << 8 | (i + j < bytes.size() ? static_cast<unsigned char>(bytes[i + j]) : 0U);
    for (std::size_t j = 0; j < 4; ++j) out += i + j <= bytes.size() ? kDigits[value >> (18 - 6 * j) & 63U] : '=';
  }
  return out;
}

class ConversionTest : public testing::Test {
 protected:
  static void SetUpTestSuite() {
    InitLog("compute-domain-webhook", LogLevel::kWarning, SystemClock());
    static WebhookProcess webhook;
    Connection admin;
    ASSERT_TRUE(ApplyFile(admin, kCrds, "computedomains.resource.nvidia.com", CD_SOURCE_DIR "/deploy/crds/computedomains.yaml"));
    json conversion = json::parse(R"({"strategy":"Webhook","webhook":{"conversionReviewVersions":["v1"],"clientConfig":{}}})");
    conversion["webhook"]["clientConfig"]["url"] = webhook.Url();
    conversion["webhook"]["clientConfig"]["caBundle"] = Base64(webhook.ca_bundle);
    // The server's own controllers write the status of a new definition.
    ASSERT_TRUE(Eventually([&] {
      json crd = *admin.Call(kube::Get(kCrds, {"", "computedomains.resource.nvidia.com"}));
      for (json& version : crd["spec"]["versions"]) version["served"] = true;
      crd["spec"]["conversion"] = conversion;
      return admin.Call(kube::Update(kCrds, crd)).has_value();
    }));
    const auto policy =
        ApplyFile(admin, kPolicies, kPolicy, CD_SOURCE_DIR "/deploy/chart/computedomain-driver/files/policy-computedomains.yaml");
    ASSERT_TRUE(policy) << policy.error().message;
    json binding = json::parse(R"({"apiVersion":"admissionregistration.k8s.io/v1","kind":"ValidatingAdmissionPolicyBinding",
      "metadata":{"name":"compute-domain-computedomains"},"spec":{"policyName":"compute-domain-computedomains","validationActions":["Deny"]}})");
    const auto bound = admin.Call(kube::Create(kBindings, "", binding));
    ASSERT_TRUE(bound) << bound.error().message;
    for (const api::ResourceType& type : {kV1Beta1, kV1Beta2}) {
      ASSERT_TRUE(Eventually([&] { return admin.Call(kube::List(type)).has_value(); })) << type.version << " is not served";
    }
    // The policy is in force a moment after its binding is stored.
    const std::string ns = MakeNamespace(admin);
    json wrong = json::parse(R"({"metadata":{"name":"probe","annotations":{"resource.nvidia.com/v1beta2-fields":"{"}},
      "spec":{"channel":{"resourceClaimTemplate":{"name":"t"}}}})");
    ASSERT_TRUE(Eventually([&] {
      wrong["metadata"]["name"] = UniqueName("probe");
      return !admin.Call(kube::Create(kV1Beta2, ns, wrong));
    }));
  }

  ConversionTest() : ns_(MakeNamespace(user_)) {}

  json Make(const api::ResourceType& type, const char* object) {
    const auto made = user_.Call(kube::Create(type, ns_, json::parse(object)));
    EXPECT_TRUE(made) << made.error().message;
    return made ? *made : json();
  }
  json Read(const api::ResourceType& type, const std::string& name = "cd") {
    const auto found = user_.Call(kube::Get(type, {ns_, name}));
    EXPECT_TRUE(found) << found.error().message;
    return found ? *found : json();
  }
  json Change(kube::ApiRequest request) {
    const auto changed = user_.Call(std::move(request));
    EXPECT_TRUE(changed) << changed.error().message;
    return changed ? *changed : json();
  }
  // "": it was not refused.
  std::string Refusal(kube::ApiRequest request) {
    const auto answer = user_.Call(std::move(request));
    return answer ? "" : answer.error().message;
  }
  api::ObjectKey Key() const { return {ns_, "cd"}; }

  Connection user_;
  const std::string ns_;
};

constexpr char kOld[] = R"({"metadata":{"name":"cd"},"spec":{"numNodes":4,"channel":{"resourceClaimTemplate":{"name":"t"}}}})";
constexpr char kNew[] = R"({"metadata":{"name":"cd"},"spec":{"channel":{"resourceClaimTemplate":{"name":"t"}},
  "partitionPolicy":"Single","gating":{"minNodes":4}}})";
// What a client of v1beta1 reads of it.
constexpr char kNewFields[] =
    R"({"fabricPolicy":"Required","gating":{"minNodes":4,"onTimeout":"Fail","settleSeconds":5,"timeoutSeconds":600},"partitionPolicy":"Single"})";

TEST_F(ConversionTest, a_v1beta1_object_keeps_its_meaning_in_v1beta2) {
  const json made = Make(kV1Beta1, kOld);
  EXPECT_EQ(made["spec"]["numNodes"], 4);
  const json seen = Read(kV1Beta2);
  EXPECT_EQ(seen["metadata"]["uid"], made["metadata"]["uid"]);
  EXPECT_EQ(seen["metadata"]["resourceVersion"], made["metadata"]["resourceVersion"]);
  EXPECT_EQ(seen["spec"]["fabricPolicy"], "Optional");
  EXPECT_EQ(seen["spec"]["isolationMode"], "Channel");
  EXPECT_EQ(Read(kV1Beta1), made);
}

TEST_F(ConversionTest, a_v1beta2_object_survives_a_client_that_knows_only_v1beta1) {
  const json made = Make(kV1Beta2, kNew);
  json old = Read(kV1Beta1);
  EXPECT_EQ(old["metadata"]["annotations"][api::kV1Beta2Fields], kNewFields);
  old["metadata"]["labels"]["edited"] = "put";
  Change(kube::Update(kV1Beta1, old));
  Change(kube::MergePatch(kV1Beta1, Key(), json::parse(R"({"metadata":{"labels":{"edited":"merge"}}})")));
  Change(kube::JsonPatch(kV1Beta1, Key(), json::parse(R"([{"op":"add","path":"/metadata/labels/more","value":"json"}])")));
  const json after = Read(kV1Beta2);
  EXPECT_EQ(after["spec"], made["spec"]);
  EXPECT_EQ(after["metadata"]["generation"], made["metadata"]["generation"]);
  EXPECT_FALSE(after["metadata"].contains("annotations")) << after["metadata"].dump();
  EXPECT_EQ(after["metadata"]["labels"]["edited"], "merge");
  EXPECT_EQ(after["metadata"]["labels"]["more"], "json");
}

// The API server converts the stored object, status too, to the version of the request and back.
TEST_F(ConversionTest, status_survives_what_a_v1beta1_client_writes) {
  Make(kV1Beta2, kNew);
  const json status =
      json::parse(R"({"status":{"conditions":[{"type":"Ready","status":"True","reason":"AllNodesReady","message":"m",
    "observedGeneration":1,"lastTransitionTime":"2026-01-01T00:00:00Z"}],"nodeSummary":{"total":1,"ready":1},"partition":"c.1",
    "partitions":[{"cliqueID":"c.1","channel":3}],"members":[{"node":"a","cliqueID":"c.1","address":"10.0.0.1","index":2,"ready":true}]}})");
  const json written = Change(kube::MergePatch(kV1Beta2, Key(), status, "status"));
  const json old = Read(kV1Beta1);
  EXPECT_EQ(old["status"]["status"], "Ready");
  EXPECT_EQ(old["status"]["nodes"][0]["ipAddress"], "10.0.0.1");
  Change(kube::MergePatch(kV1Beta1, Key(), json::parse(R"({"metadata":{"labels":{"edited":"yes"}}})")));
  EXPECT_EQ(Read(kV1Beta2)["status"], written["status"]);
}

TEST_F(ConversionTest, two_managers_apply_in_two_versions) {
  Change(kube::Apply(kV1Beta1,
                     json::parse(R"({"apiVersion":"resource.nvidia.com/v1beta1","kind":"ComputeDomain","metadata":{"name":"cd",
    "namespace":")" + ns_ + R"("},"spec":{"numNodes":2,"channel":{"resourceClaimTemplate":{"name":"t"}}}})"),
                     "old-hand"));
  const json labelled = json::parse(R"({"apiVersion":"resource.nvidia.com/v1beta2","kind":"ComputeDomain","metadata":{"name":"cd",
    "namespace":")" + ns_ + R"(","labels":{"by":"new"}}})");
  const std::string version = Change(kube::Apply(kV1Beta2, labelled, "new-hand"))["metadata"]["resourceVersion"];
  EXPECT_EQ(Change(kube::Apply(kV1Beta2, labelled, "new-hand"))["metadata"]["resourceVersion"], version) << "nothing new";
  // What the first manager says again changes nothing, and takes nothing from the second.
  const json again =
      Change(kube::Apply(kV1Beta1,
                         json::parse(R"({"apiVersion":"resource.nvidia.com/v1beta1","kind":"ComputeDomain",
    "metadata":{"name":"cd","namespace":")" +
                                     ns_ + R"("},"spec":{"numNodes":2,"channel":{"resourceClaimTemplate":{"name":"t"}}}})"),
                         "old-hand"));
  EXPECT_EQ(again["metadata"]["resourceVersion"], version);
  EXPECT_EQ(again["metadata"]["labels"]["by"], "new");
  EXPECT_EQ(again["spec"]["numNodes"], 2);
}

TEST_F(ConversionTest, a_v1beta1_user_opts_in_by_the_annotation) {
  Make(kV1Beta1,
       R"({"metadata":{"name":"cd","annotations":{"resource.nvidia.com/v1beta2-fields":"{ \"gating\": {\"minNodes\": 2} }"}},
    "spec":{"channel":{"resourceClaimTemplate":{"name":"t"}}}})");
  EXPECT_EQ(Read(kV1Beta2)["spec"]["gating"]["minNodes"], 2);
  EXPECT_EQ(Read(kV1Beta1)["metadata"]["annotations"][api::kV1Beta2Fields], R"({ "gating": {"minNodes": 2} })");
  // A controller of v1beta2 edits gating; who has set the annotation reads the new one.
  Change(kube::MergePatch(kV1Beta2, Key(), json::parse(R"({"spec":{"gating":{"minNodes":3}}})")));
  EXPECT_THAT(Read(kV1Beta1)["metadata"]["annotations"].value(api::kV1Beta2Fields, ""), HasSubstr(R"("minNodes":3)"));
  EXPECT_EQ(Refusal(kube::MergePatch(kV1Beta1, Key(), json::parse(R"({"metadata":{"labels":{"a":"b"}}})"))), "");
}

TEST_F(ConversionTest, annotation_that_says_nothing_is_refused_by_name) {
  for (const char* text :
       {"{", R"({\"gating\":{\"minNodes\":0}})", R"({\"fabric\":\"Required\"})", R"({\"imex\":{\"logLevel\":1}})"}) {
    const json wrong = json::parse(R"({"metadata":{"name":"cd","annotations":{"resource.nvidia.com/v1beta2-fields":")" +
                                   std::string(text) + R"("}},"spec":{"channel":{"resourceClaimTemplate":{"name":"t"}}}})");
    EXPECT_THAT(Refusal(kube::Create(kV1Beta1, ns_, wrong)),
                HasSubstr("metadata.annotations[resource.nvidia.com/v1beta2-fields]: must be"));
    EXPECT_THAT(Refusal(kube::Create(kV1Beta2, ns_, wrong)), HasSubstr("has no meaning in v1beta2"));
  }
}

TEST_F(ConversionTest, what_is_fixed_is_fixed_in_both_versions) {
  Make(kV1Beta2, kNew);
  json dropped = Read(kV1Beta1);
  dropped["metadata"]["annotations"].erase(api::kV1Beta2Fields);
  EXPECT_THAT(Refusal(kube::Update(kV1Beta1, dropped)), HasSubstr("v1beta2-fields]: is fixed at creation"));
  json gating = Read(kV1Beta1);
  gating["metadata"]["annotations"][api::kV1Beta2Fields] =
      R"({"fabricPolicy":"Required","gating":{"minNodes":9},"partitionPolicy":"Single"})";
  EXPECT_THAT(Refusal(kube::Update(kV1Beta1, gating)), HasSubstr("gating is changed in v1beta2 only"));
  EXPECT_THAT(Refusal(kube::MergePatch(kV1Beta1, Key(), json::parse(R"({"spec":{"numNodes":7}})"))),
              HasSubstr("fixed at creation"));
  EXPECT_THAT(Refusal(kube::MergePatch(kV1Beta2, Key(), json::parse(R"({"spec":{"fabricPolicy":"Optional"}})"))),
              HasSubstr("fabricPolicy is fixed at creation"));
  EXPECT_THAT(Refusal(kube::MergePatch(
                  kV1Beta2, Key(),
                  json::parse(R"({"metadata":{"annotations":{"resource.nvidia.com/v1beta1-fields":"{\"numNodes\":3}"}}})"))),
              HasSubstr("v1beta1-fields]: stands for numNodes"));
  EXPECT_EQ(Refusal(kube::MergePatch(kV1Beta2, Key(), json::parse(R"({"spec":{"gating":{"minNodes":5}}})"))), "");
  EXPECT_EQ(Read(kV1Beta2)["spec"]["gating"]["minNodes"], 5);
}

TEST_F(ConversionTest, a_list_holds_what_was_made_in_either_version) {
  Make(kV1Beta1, kOld);
  Make(kV1Beta2, R"({"metadata":{"name":"new"},"spec":{"channel":{"resourceClaimTemplate":{"name":"t"}}}})");
  for (const api::ResourceType& type : {kV1Beta1, kV1Beta2}) {
    const auto list = user_.Call(kube::List(type, ns_));
    ASSERT_TRUE(list) << list.error().message;
    ASSERT_EQ(list->at("items").size(), 2u);
    for (const json& item : list->at("items")) {
      EXPECT_EQ(item["apiVersion"], type.ApiVersion());
      EXPECT_EQ(item, Read(type, item["metadata"]["name"]));
    }
  }
}

}  // namespace
}  // namespace cd::integration
