// One script of operations, put to the model of the API server that the tests use and to the real one: the answers must agree.
#include <gtest/gtest.h>

#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "src/kube/model_server.h"
#include "tests/integration/api_script.h"
#include "tests/integration/controller_fixture.h"

namespace cd::integration {
namespace {

using nlohmann::json;

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
  const kube::Selection selection{api::kImexDomains.plural, "", domain, "", {}};
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
