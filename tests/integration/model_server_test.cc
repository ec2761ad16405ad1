// One script of operations, put to the model of the API server that the tests use and to the real one: the answers must agree.
//
// What the script does not try the model must not be trusted with.
#include <gtest/gtest.h>

#include <functional>
#include <map>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "src/api/resource_claim.h"
#include "src/kube/model_server.h"
#include "tests/integration/controller_fixture.h"

namespace cd::integration {
namespace {

using nlohmann::json;

// Where the script runs, and what it has learned there.
class Endpoint {
 public:
  explicit Endpoint(std::function<Result<json>(kube::ApiRequest)> call) : call_(std::move(call)) {}

  Result<json> Call(kube::ApiRequest request) { return call_(std::move(request)); }
  void Learn(const std::string& step, const Result<json>& answer) {
    if (!answer || !answer->contains("metadata")) return;
    version[step] = answer->at("metadata").value("resourceVersion", "");
    uid[step] = answer->at("metadata").value("uid", "");
  }

  std::map<std::string, std::string> version;  // of the object each step answered with
  std::map<std::string, std::string> uid;

 private:
  std::function<Result<json>(kube::ApiRequest)> call_;
};

struct Step {
  std::string name;
  std::function<kube::ApiRequest(Endpoint&)> request;
};

// What both servers must say alike.
json Comparable(json object) {
  if (object.contains("items")) {
    json items = json::array();
    for (json& item : object["items"]) items.push_back(Comparable(std::move(item)));
    return items;
  }
  if (object.value("kind", "") == "Status") return "Status";
  if (!object.contains("metadata")) return object;
  json& metadata = object["metadata"];
  for (const char* name :
       {"managedFields", "creationTimestamp", "resourceVersion", "uid", "deletionGracePeriodSeconds", "selfLink"}) {
    metadata.erase(name);
  }
  if (metadata.contains("deletionTimestamp")) metadata["deletionTimestamp"] = "set";
  return object;
}

json NodeSpec(const std::string& uid) {
  return {{"domain", {{"name", "clique.1"}, {"uid", uid}, {"index", 3}}}};
}

json NodeStatus(const std::string& boot) {
  api::ImexNodeStatus status;
  status.boot_id = boot;
  status.channels = {{"u", 1, "c"}};
  return api::EncodeImexNodeStatus(status);
}

json DomainObject(const std::string& name) {
  api::ImexDomain domain;
  domain.meta.name = name;
  domain.meta.finalizers = {api::kFinalizer};
  domain.clique_id = "clique.1";
  return api::EncodeImexDomain(domain);
}

std::vector<Step> Script(const std::string& node, const std::string& domain, const std::string& ns) {
  const api::ObjectKey node_key{"", node};
  const api::ObjectKey domain_key{"", domain};
  const api::ObjectKey cd_key{ns, "red"};
  const auto status_patch = [=](const json& metadata, const json& status) {
    return kube::MergePatch(api::kImexNodes, node_key, {{"metadata", metadata}, {"status", status}}, "status");
  };
  const auto domain_update = [=](const std::string& version, const std::string& uid, int next) {
    json object = DomainObject(domain);
    if (!version.empty()) object["metadata"]["resourceVersion"] = version;
    if (!uid.empty()) object["metadata"]["uid"] = uid;
    object["spec"]["nextChannel"] = next;
    return kube::Update(api::kImexDomains, object);
  };
  const auto apply = [=](const json& labels, const std::string& uid = "", bool force = false) {
    json metadata{{"name", node}, {"labels", labels}};
    if (!uid.empty()) metadata["uid"] = uid;
    kube::ApiRequest request = kube::Apply(api::kImexNodes, {{"metadata", metadata}}, "script");
    if (force) request.query["force"] = "true";
    return request;
  };
  const json bare_node{{"metadata", {{"name", node}}}, {"spec", json::object()}, {"status", NodeStatus("boot-0")}};
  return {
      {"read what is not there", [=](Endpoint&) { return kube::Get(api::kImexNodes, node_key); }},
      {"patch what is not there", [=](Endpoint&) { return status_patch(json::object(), NodeStatus("boot-1")); }},
      {"create with a version",
       [=](Endpoint&) {
         json object = bare_node;
         object["metadata"]["resourceVersion"] = "5";
         return kube::Create(api::kImexNodes, "", object);
       }},
      {"create drops status", [=](Endpoint&) { return kube::Create(api::kImexNodes, "", bare_node); }},
      {"create again", [=](Endpoint&) { return kube::Create(api::kImexNodes, "", bare_node); }},
      {"status with the version",
       [=](Endpoint& e) { return status_patch({{"resourceVersion", e.version["create drops status"]}}, NodeStatus("boot-1")); }},
      {"status with an old version",
       [=](Endpoint& e) { return status_patch({{"resourceVersion", e.version["create drops status"]}}, NodeStatus("boot-2")); }},
      {"status that changes nothing", [=](Endpoint&) { return status_patch(json::object(), NodeStatus("boot-1")); }},
      {"status leaves the rest alone",
       [=](Endpoint&) {
         return kube::MergePatch(
             api::kImexNodes, node_key,
             {{"metadata", {{"labels", {{"a", "b"}}}}}, {"spec", NodeSpec("u")}, {"status", NodeStatus("boot-3")}}, "status");
       }},
      {"spec with the UID",
       [=](Endpoint& e) {
         return kube::MergePatch(
             api::kImexNodes, node_key,
             {{"metadata", {{"uid", e.uid["create drops status"]}}}, {"spec", NodeSpec("u")}, {"status", NodeStatus("ignored")}});
       }},
      {"spec with another UID",
       [=](Endpoint&) {
         return kube::MergePatch(api::kImexNodes, node_key,
                                 {{"metadata", {{"uid", "00000000-0000-4000-8000-00000000dead"}}}, {"spec", NodeSpec("v")}});
       }},
      {"status with another UID",
       [=](Endpoint&) { return status_patch({{"uid", "00000000-0000-4000-8000-00000000dead"}}, NodeStatus("boot-4")); }},
      {"null removes", [=](Endpoint&) { return kube::MergePatch(api::kImexNodes, node_key, {{"spec", {{"domain", nullptr}}}}); }},
      {"null in a status removes",
       [=](Endpoint&) { return status_patch(json::object(), {{"maintenanceAcknowledged", nullptr}}); }},
      {"labels of somebody",
       [=](Endpoint&) {
         return kube::MergePatch(api::kImexNodes, node_key, {{"metadata", {{"labels", {{"zone", "a"}, {"clique", "x"}}}}}});
       }},
      {"apply", [=](Endpoint& e) { return apply({{"daemon", "true"}}, e.uid["create drops status"]); }},
      {"apply again", [=](Endpoint&) { return apply({{"daemon", "true"}}); }},
      {"apply what somebody else says otherwise", [=](Endpoint&) { return apply({{"daemon", "true"}, {"clique", "y"}}); }},
      {"apply what somebody else says as well", [=](Endpoint&) { return apply({{"daemon", "true"}, {"clique", "x"}}); }},
      {"it is still somebody else's", [=](Endpoint&) { return apply({{"daemon", "true"}, {"clique", "y"}}); }},
      {"apply less of what is shared", [=](Endpoint&) { return apply({{"daemon", "true"}}); }},
      {"apply by force", [=](Endpoint&) { return apply({{"daemon", "true"}, {"clique", "y"}}, "", true); }},
      {"apply another value", [=](Endpoint&) { return apply({{"daemon", "true"}, {"clique", "z"}}); }},
      {"somebody changes what was applied",
       [=](Endpoint&) { return kube::MergePatch(api::kImexNodes, node_key, {{"metadata", {{"labels", {{"daemon", "no"}}}}}}); }},
      {"apply what was changed", [=](Endpoint&) { return apply({{"daemon", "true"}, {"clique", "z"}}); }},
      {"somebody removes what was applied",
       [=](Endpoint&) {
         return kube::MergePatch(api::kImexNodes, node_key, {{"metadata", {{"labels", {{"clique", nullptr}}}}}});
       }},
      {"apply what was removed", [=](Endpoint&) { return apply({{"clique", "z"}}); }},
      {"apply nothing", [=](Endpoint&) { return apply(json::object()); }},
      {"apply with another UID", [=](Endpoint&) { return apply({{"a", "b"}}, "00000000-0000-4000-8000-00000000dead"); }},
      {"delete with another UID",
       [=](Endpoint&) { return kube::Delete(api::kImexNodes, node_key, "00000000-0000-4000-8000-00000000dead"); }},
      {"delete", [=](Endpoint&) { return kube::Delete(api::kImexNodes, node_key); }},
      {"delete again", [=](Endpoint&) { return kube::Delete(api::kImexNodes, node_key); }},
      {"apply what is gone", [=](Endpoint& e) { return apply({{"a", "b"}}, e.uid["create drops status"]); }},

      {"domain", [=](Endpoint&) { return kube::Create(api::kImexDomains, "", DomainObject(domain)); }},
      {"update without version", [=](Endpoint&) { return domain_update("", "", 2); }},
      {"update with the version", [=](Endpoint& e) { return domain_update(e.version["domain"], "", 2); }},
      {"update with an old version", [=](Endpoint& e) { return domain_update(e.version["domain"], "", 3); }},
      {"update with another UID",
       [=](Endpoint& e) {
         return domain_update(e.version["update with the version"], "00000000-0000-4000-8000-00000000dead", 3);
       }},
      {"update that changes nothing", [=](Endpoint& e) { return domain_update(e.version["update with the version"], "", 2); }},
      {"test fails",
       [=](Endpoint&) {
         return kube::JsonPatch(api::kImexDomains, domain_key,
                                json::array({{{"op", "test"}, {"path", "/metadata/uid"}, {"value", "x"}},
                                             {{"op", "remove"}, {"path", "/metadata/finalizers/0"}}}));
       }},
      {"delete with an old version",
       [=](Endpoint& e) { return kube::Delete(api::kImexDomains, domain_key, e.uid["domain"], e.version["domain"]); }},
      {"delete waits for finalizers",
       [=](Endpoint& e) {
         return kube::Delete(api::kImexDomains, domain_key, e.uid["domain"], e.version["update with the version"]);
       }},
      {"delete twice", [=](Endpoint&) { return kube::Delete(api::kImexDomains, domain_key); }},
      {"it is still there", [=](Endpoint&) { return kube::Get(api::kImexDomains, domain_key); }},
      {"its name is taken", [=](Endpoint&) { return kube::Create(api::kImexDomains, "", DomainObject(domain)); }},
      {"update while deleting", [=](Endpoint& e) { return domain_update(e.version["it is still there"], "", 4); }},
      {"the last finalizer",
       [=](Endpoint& e) {
         return kube::JsonPatch(api::kImexDomains, domain_key,
                                json::array({{{"op", "test"}, {"path", "/metadata/uid"}, {"value", e.uid["domain"]}},
                                             {{"op", "test"}, {"path", "/metadata/finalizers/0"}, {"value", api::kFinalizer}},
                                             {{"op", "remove"}, {"path", "/metadata/finalizers/0"}}}));
       }},
      {"it is gone", [=](Endpoint&) { return kube::Get(api::kImexDomains, domain_key); }},

      {"ComputeDomain",
       [=](Endpoint&) {
         return kube::Create(api::kComputeDomains, ns,
                             {{"metadata", {{"name", "red"}}},
                              {"spec",
                               {{"channel", {{"resourceClaimTemplate", {{"name", "red-channel"}}}, {"allocationMode", "Single"}}},
                                {"isolationMode", "Channel"},
                                {"partitionPolicy", "Any"},
                                {"fabricPolicy", "Required"}}}});
       }},
      {"finalizer",
       [=](Endpoint& e) {
         return kube::JsonPatch(
             api::kComputeDomains, cd_key,
             json::array({{{"op", "test"}, {"path", "/metadata/uid"}, {"value", e.uid["ComputeDomain"]}},
                          {{"op", "test"}, {"path", "/metadata/resourceVersion"}, {"value", e.version["ComputeDomain"]}},
                          {{"op", "add"}, {"path", "/metadata/finalizers"}, {"value", {api::kFinalizer}}}}));
       }},
      {"finalizer with an old version",
       [=](Endpoint& e) {
         return kube::JsonPatch(
             api::kComputeDomains, cd_key,
             json::array({{{"op", "test"}, {"path", "/metadata/resourceVersion"}, {"value", e.version["ComputeDomain"]}},
                          {{"op", "add"}, {"path", "/metadata/finalizers"}, {"value", {api::kFinalizer}}}}));
       }},
      {"list of the namespace", [=](Endpoint&) { return kube::List(api::kComputeDomains, ns); }},
      {"list by name", [=](Endpoint&) { return kube::List(api::kComputeDomains, ns, {{"fieldSelector", "metadata.name=red"}}); }},
      {"list by another name",
       [=](Endpoint&) { return kube::List(api::kComputeDomains, ns, {{"fieldSelector", "metadata.name=blue"}}); }},
      {"list by label", [=](Endpoint&) { return kube::List(api::kComputeDomains, ns, {{"labelSelector", "queue"}}); }},
      {"ComputeDomain is deleted", [=](Endpoint&) { return kube::Delete(api::kComputeDomains, cd_key); }},
      {"finalizer of one that is deleted goes",
       [=](Endpoint&) {
         return kube::JsonPatch(api::kComputeDomains, cd_key,
                                json::array({{{"op", "test"}, {"path", "/metadata/finalizers/0"}, {"value", api::kFinalizer}},
                                             {{"op", "remove"}, {"path", "/metadata/finalizers/0"}}}));
       }},
      {"list of nothing", [=](Endpoint&) { return kube::List(api::kComputeDomains, ns); }},
  };
}

class ModelServerTest : public ControllerTest {
 protected:
  // Nobody acts but the script.
  void SetUp() override {
    ns_ = MakeNamespace(user_);
    const auto call = [this](kube::ApiRequest request) { return Call(std::move(request)); };
    real_ = std::make_unique<Endpoint>(call);
    fake_ = std::make_unique<Endpoint>([this](const kube::ApiRequest& request) { return model_.Handle(request); });
  }
  void TearDown() override {}

  kube::ModelServer model_{SystemClock()};
  std::unique_ptr<Endpoint> real_;
  std::unique_ptr<Endpoint> fake_;
};

std::string Say(const Result<json>& answer) {
  return answer ? Comparable(*answer).dump() : std::string(ToString(answer.error().code));
}

TEST_F(ModelServerTest, answers_as_the_real_one) {
  for (const Step& step : Script(Name("node"), "0f3a1c4e-0000-4000-8000-00000000c11c." + ns_, ns_)) {
    const Result<json> real = real_->Call(step.request(*real_));
    const Result<json> fake = fake_->Call(step.request(*fake_));
    EXPECT_EQ(Say(real), Say(fake)) << step.name << (real ? "" : ": " + real.error().message);
    real_->Learn(step.name, real);
    fake_->Learn(step.name, fake);
  }
  EXPECT_EQ(real_->version["status that changes nothing"], real_->version["status with the version"]);
  EXPECT_EQ(fake_->version["status that changes nothing"], fake_->version["status with the version"]);
}

// What a watch tells of the script's IMEXDomain, in order.
TEST_F(ModelServerTest, watches_tell_the_same) {
  const std::string domain = "0f3a1c4e-0000-4000-8000-00000000c11c." + ns_;
  const auto listed = Call(kube::List(api::kImexDomains));
  ASSERT_TRUE(listed);
  const std::uint64_t model_from = model_.version();
  std::mutex mutex;
  std::vector<std::string> told;
  std::unique_ptr<kube::WatchStream> stream;
  user_.OnLoop([&] {
    kube::WatchRequest request{.type = api::kImexDomains};
    request.query = {{"resourceVersion", listed->at("metadata")["resourceVersion"]},
                     {"fieldSelector", "metadata.name=" + domain}};
    stream = user_.client->Watch(
        std::move(request),
        [&](std::string_view text) {
          const json event = json::parse(text);
          const std::lock_guard lock(mutex);
          told.push_back(event["type"].get<std::string>() + " " + Comparable(event["object"]).dump());
        },
        [](const Status&) {});
  });
  for (const Step& step : Script(Name("watched"), domain, ns_)) {
    real_->Learn(step.name, real_->Call(step.request(*real_)));
    fake_->Learn(step.name, fake_->Call(step.request(*fake_)));
  }
  std::vector<std::string> expected;
  const kube::Selection selection{api::kImexDomains.plural, "", domain, ""};
  std::uint64_t seen = model_from;
  while (const kube::HistoryEvent* event = model_.Next(selection, seen, seen)) {
    expected.push_back(std::string(event->type) + " " + Comparable(*event->object).dump());
  }
  EXPECT_TRUE(Eventually([&] {
    const std::lock_guard lock(mutex);
    return told.size() >= expected.size();
  }));
  user_.OnLoop([&] { stream.reset(); });
  const std::lock_guard lock(mutex);
  EXPECT_EQ(told, expected);
}

}  // namespace
}  // namespace cd::integration
