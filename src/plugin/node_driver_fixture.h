// A node with one claim, a lease and a disk, for the tests of Prepare and Unprepare. Test code only.
#pragma once

#include <gmock/gmock.h>

#include <functional>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "src/plugin/node_driver.h"
#include "src/plugin/prepare_fixture.h"

namespace cd::plugin {

// Says yes at once, never, or no, and remembers what it was asked for.
class FakeReport final : public ChannelReport {
 public:
  void EnsureReported(const api::NodeChannel& channel, std::function<void(Status)> done) override {
    asked.push_back(channel);
    if (answering) {
      done(answer);
    } else {
      held.push_back(std::move(done));
    }
  }
  void PrepareEnded(const std::string& claim_uid, bool is_lost) override { (is_lost ? lost : ended).push_back(claim_uid); }
  std::vector<std::string> lost, ended;
  std::vector<api::NodeChannel> asked;
  bool answering = true;
  Status answer;
  std::vector<std::function<void(Status)>> held;
};

class NodeDriverTest : public ::testing::Test {
 protected:
  NodeDriverTest() {
    WriteDriver(dir);
    EXPECT_TRUE(files.MakeDirectories());
    api.Put(api::kResourceClaims, ClaimObject(ClaimRef(1), kRedUid));
    SetDomain({Lease(7, kRedUid)});
  }

  // What a quorum read finds; the watch has not told yet.
  void StoreDomain(const std::vector<api::ChannelLease>& leases) {
    nlohmann::json object = api::EncodeImexDomain(DomainObject(leases));
    object["metadata"]["uid"] = kDomainUid;
    api.Put(api::kImexDomains, std::move(object));
  }
  void SetDomain(std::vector<api::ChannelLease> leases) {
    StoreDomain(leases);
    view = ViewOf(std::move(leases));
    driver.SetView(std::make_shared<NodeView>(view));
  }
  // A node that surely has no fabric, and what the controller says to it.
  void SetNoFabric(std::vector<api::Exemption> exemptions) {
    view = NodeView();
    view.node = kNode;
    view.no_fabric = true;
    api::ImexNode node;
    node.meta.name = kNode;
    node.exemptions = std::move(exemptions);
    view.imex_node = std::make_shared<api::ImexNode>(std::move(node));
    driver.SetView(std::make_shared<NodeView>(view));
  }
  void Prepare(NodeDriver& who, const api::ObjectRef& claim, CallId call = 1) {
    who.Prepare(call, claim, [this](PrepareResult result) { results.push_back(std::move(result)); });
    executor.RunPosted();
  }
  void Prepare(const api::ObjectRef& claim, CallId call = 1) { Prepare(driver, claim, call); }
  void Unprepare(NodeDriver& who, const api::ObjectRef& claim) {
    Status result = Fail(ErrorCode::kInternal, "not answered");
    who.Unprepare(claim, [&](Status s) { result = std::move(s); });
    executor.RunPosted();
    EXPECT_TRUE(result) << result.error().message;
  }
  std::string Error(std::size_t index = 0) {
    if (results.size() <= index) return "no answer";
    return results[index] ? "prepared" : results[index].error().message;
  }
  Checkpoint Stored() {
    const auto text = Slurp(state.path());
    return text.empty() ? Checkpoint{} : DecodeCheckpoint(text).value();
  }
  std::filesystem::path CdiPath(int n) {
    return dir.path() / "cdi" / ("compute-domain.nvidia.com-claim_" + ClaimUid(n) + ".json");
  }
  std::filesystem::path MarkerPath(int n) { return dir.path() / "plugin" / "claims" / (ClaimUid(n) + ".json"); }
  // Nothing of a claim anywhere on this node.
  void ExpectNothingWritten() {
    EXPECT_TRUE(Stored().claims.empty());
    EXPECT_TRUE(Stored().lingering.empty());
    EXPECT_TRUE(std::filesystem::is_empty(dir.path() / "cdi"));
    EXPECT_TRUE(std::filesystem::is_empty(dir.path() / "plugin" / "claims"));
    EXPECT_THAT(report.asked, ::testing::IsEmpty());
  }

  TempDir dir;
  ManualExecutor executor;
  FakeApi api{executor};
  ClaimFiles files{PathsIn(dir)};
  NodeState state{executor, dir.path() / "plugin", "boot-1", files};
  FakeReport report;
  NodeDriver driver{executor, api, state, files, report, {kNode, "computedomain-system", "pod-a"}};
  NodeView view;
  std::vector<PrepareResult> results;
};

}  // namespace cd::plugin
