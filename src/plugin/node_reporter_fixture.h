// For tests of NodeReporter: the IMEXNode as the API sees it, and how many writes it costs.
#pragma once

#include <gtest/gtest.h>

#include <memory>
#include <optional>
#include <string>
#include <utility>

#include "src/plugin/node_reporter.h"
#include "src/plugin/node_watch.h"
#include "src/plugin/prepare_fixture.h"

namespace cd::plugin {

inline const api::OwnerReference kOwner{"v1", "Node", kNode, "66666666-6666-4666-8666-666666666666", false};

inline fabric::FabricView ReadyFabric() {
  return {api::FabricState::kReady, {kDomain}, "", "580.105.08"};
}

// One plugin instance: state, reporter, and the watch that feeds it.
struct Instance {
  Instance(ManualExecutor& executor, FakeApi& api, const std::filesystem::path& plugin_dir, const ClaimFiles& files)
      : state(executor, plugin_dir, "boot-1", files),
        reporter(executor, api, state, kNode, "boot-1"),
        watch(executor, api, kNode, 1, [this] {
          if (watch.Synced()) reporter.SetObserved(watch.view()->imex_node);
        }) {
    state.OnChange([this] { reporter.CheckpointChanged(); });
    watch.Start();
    reporter.SetFabric(ReadyFabric());
  }
  NodeState state;
  NodeReporter reporter;
  NodeWatch watch;
};

class NodeReporterTest : public ::testing::Test {
 protected:
  NodeReporterTest() { EXPECT_TRUE(files.MakeDirectories()); }
  // `first` and `second` share one disk, as two instances do during a rolling update.
  std::unique_ptr<Instance> Start() {
    auto instance = std::make_unique<Instance>(executor, api, dir.path() / "plugin", files);
    executor.RunPosted();
    return instance;
  }
  void Hold(Instance& instance, int claim, int channel = 7, const char* compute_domain = kRedUid) {
    instance.state.Transact(
        [&](Checkpoint& checkpoint) {
          ClaimEntry entry;
          entry.claim = ClaimRef(claim);
          entry.nonce = "n";
          entry.grant = Grant{kDomain, kDomainUid, kDomain, channel, {"red-ns", "red", compute_domain}};
          EXPECT_TRUE(Begin(checkpoint, entry, checkpoint.sequence));
          EXPECT_TRUE(FindCompleted(checkpoint, entry.claim.uid) != nullptr || Complete(checkpoint, entry.claim.uid, "n"));
          return Status{};
        },
        [](Status done) { EXPECT_TRUE(done); });
    executor.RunPosted();
  }
  void Release(Instance& instance, int claim) {
    instance.state.Transact(
        [&](Checkpoint& checkpoint) {
          Unprepare(checkpoint, ClaimUid(claim));
          EndLingering(checkpoint, ClaimUid(claim));
          return Status{};
        },
        [](Status done) { EXPECT_TRUE(done); });
    executor.RunPosted();
  }
  // As the controller does.
  void Assign(const std::string& domain_uid) {
    nlohmann::json object = *api.Find(api::kImexNodes, {"", kNode});
    object["spec"]["domain"] = {{"name", kDomain}, {"uid", domain_uid}, {"index", 3}};
    api.Put(api::kImexNodes, std::move(object));
    executor.RunPosted();
  }
  api::ImexNode Stored() {
    const auto* object = api.Find(api::kImexNodes, {"", kNode});
    return object == nullptr ? api::ImexNode{} : api::DecodeImexNode(*object).value();
  }
  // Reads are answered no more until api.fault is taken back.
  void FailReads() {
    api.fault = [](const kube::ApiRequest& request) -> std::optional<Error> {
      if (request.verb == kube::Verb::kGet) return Error{ErrorCode::kUnavailable, "outage", std::nullopt};
      return std::nullopt;
    };
  }
  // "": as the controller, or an administrator, takes it back.
  void AskForMaintenance(const std::string& token) {
    nlohmann::json object = *api.Find(api::kImexNodes, {"", kNode});
    if (token.empty()) {
      object["spec"].erase("maintenance");
    } else {
      object["spec"]["maintenance"] = token;
    }
    api.Put(api::kImexNodes, std::move(object));
    executor.RunPosted();
  }
  // An instance that publishes.
  std::unique_ptr<Instance> StartPublisher() {
    auto instance = Start();
    instance->reporter.BecomePublisher(OwnedBy(kOwner));
    executor.RunPosted();
    return instance;
  }
  int Writes() { return api.Count("create imexnodes") + api.Count("patch imexnodes/status"); }

  TempDir dir;
  ManualExecutor executor;
  FakeApi api{executor};
  ClaimFiles files{PathsIn(dir)};
  const api::NodeChannel red{kDomainUid, 7, kRedUid, kDomain};
};

}  // namespace cd::plugin
