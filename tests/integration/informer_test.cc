// The informer against a real API server that dies, forgets and comes back.
#include "src/kube/informer.h"

#include <gtest/gtest.h>

#include <atomic>
#include <map>
#include <mutex>
#include <nlohmann/json.hpp>
#include <set>

#include "tests/integration/cluster.h"

namespace cd::integration {
namespace {

using kube::ChangeType;
using nlohmann::json;

struct Thing {
  api::ObjectMeta meta;
  std::string value;
};

Result<Thing> DecodeThing(const json& object) {
  auto meta = api::DecodeMeta(object);
  if (!meta) return Fail(std::move(meta.error()));
  return Thing{*std::move(meta), object.value(json::json_pointer("/data/key"), "")};
}

// Counts what an informer asks for.
class CountingClient final : public kube::ApiClient {
 public:
  explicit CountingClient(kube::ApiClient& next) : next_(next) {}
  void Call(kube::ApiRequest request, Callback done) override {
    ++calls;
    next_.Call(std::move(request), std::move(done));
  }
  std::unique_ptr<kube::WatchStream> Watch(kube::WatchRequest request, EventHandler on_event, EndHandler on_end) override {
    ++watches;
    return next_.Watch(std::move(request), std::move(on_event), std::move(on_end));
  }

  std::atomic<int> calls = 0, watches = 0;

 private:
  kube::ApiClient& next_;
};

class InformerOfConfigMaps : public testing::Test {
 protected:
  InformerOfConfigMaps() {
    watcher_.OnLoop([this] {
      informer_ = std::make_unique<kube::Informer<Thing>>(counter_, watcher_.loop,
                                                          kube::InformerOptions{.type = kConfigMaps, .ns = ns_}, &DecodeThing, 1);
      informer_->AddHandler([this](ChangeType type, const auto& object) {
        std::lock_guard lock(mutex_);
        if (type == ChangeType::kDeleted) {
          seen_.erase(object->meta.name);
        } else {
          seen_[object->meta.name] = object->value;
        }
        uids_[object->meta.name].insert(object->meta.uid);
      });
      informer_->Start();
    });
  }
  ~InformerOfConfigMaps() override {
    watcher_.OnLoop([this] { informer_.reset(); });
  }

  void Put(const std::string& name, const std::string& value) {
    const json object = {{"metadata", {{"name", name}}}, {"data", {{"key", value}}}};
    auto made = writer_.Call(kube::Create(kConfigMaps, ns_, object));
    if (!made && made.error().code == ErrorCode::kAlreadyExists)
      made = writer_.Call(kube::MergePatch(kConfigMaps, {ns_, name}, object));
    ASSERT_TRUE(made) << made.error().message;
  }
  void Remove(const std::string& name) {
    const auto gone = writer_.Call(kube::Delete(kConfigMaps, {ns_, name}));
    ASSERT_TRUE(gone) << gone.error().message;
  }
  std::map<std::string, std::string> Seen() {
    std::lock_guard lock(mutex_);
    return seen_;
  }
  bool SeesEventually(const std::map<std::string, std::string>& expected) {
    return Eventually([&] { return Seen() == expected; });
  }

  Connection writer_, watcher_;
  const std::string ns_ = MakeNamespace(writer_);
  CountingClient counter_{*watcher_.client};
  std::unique_ptr<kube::Informer<Thing>> informer_;
  std::mutex mutex_;
  std::map<std::string, std::string> seen_;
  std::map<std::string, std::set<std::string>> uids_;
};

TEST_F(InformerOfConfigMaps, follows_changes_with_one_list_and_one_watch) {
  Put("a", "1");
  Put("b", "1");
  Put("a", "2");
  Remove("b");
  EXPECT_TRUE(SeesEventually({{"a", "2"}})) << json(Seen());
  EXPECT_EQ(counter_.calls, 1);
  EXPECT_EQ(counter_.watches, 1);
}

TEST_F(InformerOfConfigMaps, deleted_and_made_anew_is_seen_with_another_uid) {
  Put("a", "1");
  EXPECT_TRUE(SeesEventually({{"a", "1"}}));
  Remove("a");
  Put("a", "2");
  EXPECT_TRUE(SeesEventually({{"a", "2"}}));
  std::lock_guard lock(mutex_);
  EXPECT_EQ(uids_["a"].size(), 2U);
}

TEST_F(InformerOfConfigMaps, converges_within_seconds_after_the_server_was_away) {
  Put("a", "1");
  EXPECT_TRUE(SeesEventually({{"a", "1"}}));
  Cluster::Get().KillApiServer();
  Cluster::Get().StartApiServer();
  const auto back = SystemClock().Now();
  Put("b", "2");
  EXPECT_TRUE(SeesEventually({{"a", "1"}, {"b", "2"}})) << json(Seen());
  EXPECT_LT(SystemClock().Now() - back, std::chrono::seconds(10));
  // A server that starts anew remembers nothing older than its own start: one list if anybody wrote since the last event.
  EXPECT_LE(counter_.calls, 2) << "a restart of the server costs one list at most";
}

TEST_F(InformerOfConfigMaps, converges_after_the_server_forgot_what_happened) {
  Put("a", "1");
  Put("b", "1");
  EXPECT_TRUE(SeesEventually({{"a", "1"}, {"b", "1"}}));
  // The informer is deaf while everything changes and the past is compacted.
  std::promise<void> over;
  watcher_.loop.Post([&, wait = over.get_future().share()] { wait.wait(); });
  Cluster::Get().KillApiServer();
  Cluster::Get().StartApiServer();
  Remove("a");
  Put("b", "2");
  Put("c", "3");
  Cluster::Get().KillApiServer();
  Cluster::Get().CompactEtcd();
  Cluster::Get().StartApiServer();
  over.set_value();
  EXPECT_TRUE(SeesEventually({{"b", "2"}, {"c", "3"}})) << json(Seen());
  EXPECT_EQ(counter_.calls, 2) << "one more list, no more";
}

}  // namespace
}  // namespace cd::integration
