// What users and node agents see of the controller, and what it costs the API server.
#include "tests/integration/controller_fixture.h"

#include <gmock/gmock.h>

#include <set>

#include "src/domain/clique.h"

namespace cd::integration {
namespace {

using nlohmann::json;
using testing::HasSubstr;
using testing::IsEmpty;

// Two nodes of one clique, READY and connected.
class TwoNodes : public ControllerTest {
 protected:
  void SetUp() override {
    ControllerTest::SetUp();
    MakeNode(a_ = Name("a"));
    MakeNode(b_ = Name("b"));
    ServeAssignment(a_);
    ServeAssignment(b_);
    Connect(a_, b_);
    Connect(b_, a_);
  }
  void Connect(const std::string& node, const std::string& peer) {
    const int index = Node(peer)->domain->index;
    Report(node, [&](api::ImexNodeStatus& status) { status.daemon.connected = {index}; });
  }
  // Reasons of the events about the ComputeDomain.
  std::multiset<std::string> Told(const std::string& name) {
    std::multiset<std::string> reasons;
    const json events = MustCall(kube::List(api::kEvents, ns_));
    for (const json& event : events["items"]) {
      if (event["regarding"]["name"] == name) reasons.insert(event["reason"].get<std::string>());
    }
    return reasons;
  }
  json Template(const std::string& name) { return Call(kube::Get(api::kResourceClaimTemplates, {ns_, name})).value_or(json()); }

  std::string a_, b_;
};

TEST_F(TwoNodes, get_different_slots_of_one_domain) {
  const auto domain = Domain();
  EXPECT_EQ(domain->clique_id, clique_);
  EXPECT_EQ(domain->members.size(), 2U);
  EXPECT_NE(Node(a_)->domain->index, Node(b_)->domain->index);
}

// With 2–3 GETs and 2 status writes of each node's plugin a life stays within 24 requests, 14 of them writes.
TEST_F(TwoNodes, life_of_a_compute_domain_is_cheap_and_leaves_nothing) {
  controller_->client.Reset();
  const std::string red = MakeComputeDomain("red");
  ASSERT_TRUE(Eventually([&] { return ConditionOf("red", "Accepted") == "True Accepted"; }));
  EXPECT_EQ(Template("red-channel")["metadata"]["labels"][api::kComputeDomainLabel], red);
  EXPECT_EQ(ConditionOf("red", "Ready"), "False NoNodes");

  const Workload one = Run("one", red, a_);
  const Workload two = Run("two", red, b_);
  const int channel = WaitForLease(red);
  EXPECT_GE(channel, 1);
  Hold(a_, channel, red);
  Hold(b_, channel, red);
  ASSERT_TRUE(Eventually([&] { return ConditionOf("red", "Formed") == "True AllNodesConnected"; }));
  const auto status = ComputeDomain("red")->status;
  EXPECT_EQ(status.total_nodes, 2);
  EXPECT_EQ(status.ready_nodes, 2);
  EXPECT_EQ(status.partitions, (std::vector<api::PartitionStatus>{{clique_, clique_, channel, 2, 2}}));
  EXPECT_EQ(WakeOf(one), "");

  End(one);
  End(two);
  HoldNothing(a_);
  HoldNothing(b_);
  ASSERT_TRUE(Eventually([&] { return ConditionOf("red", "Ready") == "False NoNodes"; }));
  DeleteComputeDomain("red");
  ASSERT_TRUE(Eventually([&] { return !Lease(red); }));
  ASSERT_TRUE(Eventually([&] { return !ComputeDomain("red"); }));
  EXPECT_TRUE(Template("red-channel").is_null());
  EXPECT_THAT(controller_->client.Refused(), IsEmpty());
  const json counts = controller_->client.Counts();
  EXPECT_LE(controller_->client.Writes(), 10) << counts.dump(2);
  EXPECT_LE(controller_->client.Total(), 13) << counts.dump(2);
}

TEST_F(TwoNodes, two_domains_never_share_a_channel_and_later_pods_cost_nothing) {
  const std::string red = MakeComputeDomain("red");
  const std::string blue = MakeComputeDomain("blue");
  Run("red-one", red, a_);
  Run("blue-one", blue, a_);
  EXPECT_NE(WaitForLease(red), WaitForLease(blue));
  const std::string version = Domain()->meta.resource_version;
  Run("red-two", red, b_);
  Run("red-three", red, a_);
  ASSERT_TRUE(Eventually([&] { return ComputeDomain("red")->status.ready_nodes == 2; }));
  EXPECT_EQ(Domain()->meta.resource_version, version);
}

TEST_F(TwoNodes, template_of_somebody_else_is_left_alone_and_named) {
  const json foreign = {
      {"metadata",
       {{"name", "red-channel"},
        {"ownerReferences", json::array({{{"apiVersion", "batch/v1"}, {"kind", "Job"}, {"name", "train"}, {"uid", "u"}}})}}},
      {"spec",
       {{"spec",
         {{"devices",
           {{"requests", json::array({{{"name", "gpu"}, {"exactly", {{"deviceClassName", "gpu.nvidia.com"}}}}})}}}}}}}};
  const json before = MustCall(kube::Create(api::kResourceClaimTemplates, ns_, foreign));
  MakeComputeDomain("red");
  ASSERT_TRUE(Eventually([&] { return ConditionOf("red", "Accepted") == "False TemplateNameTaken"; }));
  EXPECT_THAT(ComputeDomain("red")->status.conditions[0].message, HasSubstr("Job " + ns_ + "/train"));
  EXPECT_TRUE(Eventually([&] { return !Told("red").empty(); }));
  EXPECT_THAT(Told("red"), testing::ElementsAre("TemplateNameTaken"));
  DeleteComputeDomain("red");
  ASSERT_TRUE(Eventually([&] { return !ComputeDomain("red"); }));
  EXPECT_EQ(Template("red-channel"), before);
}

TEST_F(TwoNodes, deleted_domain_goes_at_once_but_its_channel_waits_for_the_last_holder) {
  const std::string red = MakeComputeDomain("red");
  Run("one", red, b_);
  const int channel = WaitForLease(red);
  Hold(b_, channel, red);
  DeleteComputeDomain("red");
  ASSERT_TRUE(Eventually([&] { return !ComputeDomain("red"); }));
  ASSERT_TRUE(Eventually([&] { return Lease(red) && Lease(red)->state == api::LeaseState::kDraining; }));
  // Whoever comes now gets another number.
  const std::string blue = MakeComputeDomain("blue");
  Run("other", blue, a_);
  EXPECT_NE(WaitForLease(blue), channel);
  EXPECT_TRUE(Lease(red));
  HoldNothing(b_);
  EXPECT_TRUE(Eventually([&] { return !Lease(red); }));
  EXPECT_TRUE(Lease(blue));
}

TEST_F(TwoNodes, new_leader_goes_on_where_the_old_one_stopped) {
  const std::string red = MakeComputeDomain("red");
  Run("one", red, a_);
  const int channel = WaitForLease(red);
  Hold(a_, channel, red);
  controller_.reset();
  Run("two", red, b_);
  DeleteComputeDomain("red");
  const std::string blue = MakeComputeDomain("blue");
  Run("three", blue, b_);
  controller_ = std::make_unique<ControllerProcess>();
  EXPECT_NE(WaitForLease(blue), channel);
  ASSERT_TRUE(Eventually([&] { return !ComputeDomain("red"); }));
  EXPECT_EQ(Lease(red)->state, api::LeaseState::kDraining);
  HoldNothing(a_);
  EXPECT_TRUE(Eventually([&] { return !Lease(red); }));
  EXPECT_TRUE(Template("red-channel").is_null());
}

TEST_F(TwoNodes, lost_domain_is_rebuilt_with_slots_and_channels) {
  const std::string red = MakeComputeDomain("red");
  Run("one", red, a_);
  const int channel = WaitForLease(red);
  Hold(a_, channel, red);
  const auto before = Domain();
  MustCall(kube::Delete(api::kImexDomains, {"", clique_}));
  // Deleting alone changes nothing while there are members.
  EXPECT_TRUE(Domain()->meta.deleting);
  MustCall(kube::MergePatch(api::kImexDomains, {"", clique_}, {{"metadata", {{"finalizers", nullptr}}}}));
  auto after = Domain();
  // It is created first, and made from a list that is younger.
  ASSERT_TRUE(Eventually([&] {
    after = Domain();
    return after && after->meta.uid != before->meta.uid && api::IsMade(*after);
  }));
  EXPECT_EQ(after->members, before->members);
  EXPECT_EQ(after->channels, before->channels);
  EXPECT_TRUE(Eventually([&] { return Node(a_)->domain && Node(a_)->domain->uid == after->meta.uid; }));
  EXPECT_TRUE(Eventually([&] { return Node(b_)->domain && Node(b_)->domain->uid == after->meta.uid; }));
}

TEST_F(TwoNodes, hostile_claims_are_refused_where_the_plugin_reads_it) {
  const std::string elsewhere = MakeNamespace(user_);
  const std::string red = MakeComputeDomain("red");
  const std::string unknown = "0c5b2b1e-7c3c-4a39-9f0f-3a7f6a0f2d11";
  const Workload lost = Run("lost", unknown, a_);
  Run("thief", red, b_, elsewhere);
  ASSERT_TRUE(Eventually([&] { return Domain()->refusals.size() == 2; }));
  EXPECT_EQ(Domain()->refusals[0].reason, "UnknownComputeDomain");
  EXPECT_EQ(Domain()->refusals[1].reason, "OtherNamespace");
  EXPECT_THAT(Domain()->refusals[1].message, HasSubstr(ns_));
  EXPECT_FALSE(Lease(red));
  EXPECT_FALSE(Lease(unknown));
  EXPECT_EQ(ComputeDomain("red")->status.total_nodes, 0);
  End(lost);
  ASSERT_TRUE(Eventually([&] { return Domain()->refusals.size() == 1; }));
  MustCall(kube::Delete(kNamespaces, {"", elsewhere}));
  MustCall(kube::MergePatch(api::kResourceClaims, {elsewhere, "thief-claim"}, {{"status", nullptr}}, "status"));
  EXPECT_TRUE(Eventually([&] { return Domain()->refusals.empty(); }));
}

TEST_F(TwoNodes, spec_that_cannot_be_served_says_so_and_gets_nothing) {
  const std::string red = MakeComputeDomain("red", {{"isolationMode", "Domain"}, {"imex", {{"waitForQuorum", "FULL"}}}});
  ASSERT_TRUE(Eventually([&] { return ConditionOf("red", "Accepted") == "False NotServed"; }));
  EXPECT_THAT(ComputeDomain("red")->status.conditions[0].message, HasSubstr("spec.imex.waitForQuorum: FULL"));
  EXPECT_TRUE(Template("red-channel").is_null());
  Run("one", red, a_);
  ASSERT_TRUE(Eventually([&] { return !Domain()->refusals.empty(); }));
  EXPECT_EQ(Domain()->refusals[0].reason, "NotAccepted");
  EXPECT_TRUE(Domain()->channels.empty());
  EXPECT_TRUE(Eventually([&] { return !Told("red").empty(); }));
  EXPECT_THAT(Told("red"), testing::ElementsAre("NotServed"));
}

TEST_F(TwoNodes, refused_pod_is_woken_when_its_node_can_serve_it) {
  const std::string c = Name("c");
  MakeNode(c, [](api::ImexNodeStatus& status) {
    status.fabric = api::FabricState::kForming;
    status.fabric_message = "GPU 1 is registering";
  });
  const std::string red = MakeComputeDomain("red");
  const Workload one = Run("one", red, c);
  ASSERT_TRUE(Eventually([&] { return !Node(c)->refusals.empty(); }));
  EXPECT_THAT(Node(c)->refusals[0].message, HasSubstr("GPU 1 is registering"));
  EXPECT_FALSE(Node(c)->domain);
  EXPECT_EQ(WakeOf(one), "");
  Report(c, [](api::ImexNodeStatus& status) { status.fabric = api::FabricState::kReady; });
  ServeAssignment(c);
  EXPECT_TRUE(Eventually([&] { return !WakeOf(one).empty(); }));
  EXPECT_TRUE(Node(c)->refusals.empty());
}

TEST_F(TwoNodes, node_that_left_the_cluster_gives_its_slot_back_but_one_that_lost_its_report_does_not) {
  controller_.reset();
  controller_ = std::make_unique<ControllerProcess>(controller::ControllerOptions{.gone_after = Duration{300}});
  const api::DomainMember a = *api::FindMember(*Domain(), a_);
  const api::DomainMember b = *api::FindMember(*Domain(), b_);
  MustCall(kube::Create(api::kNodes, "", {{"metadata", {{"name", a_}}}}));
  const std::string red = MakeComputeDomain("red");
  Run("one", red, b_);
  Hold(b_, WaitForLease(red), red);
  DeleteComputeDomain("red");
  ASSERT_TRUE(Eventually([&] { return Lease(red)->state == api::LeaseState::kDraining; }));
  MustCall(kube::Delete(api::kImexNodes, {"", a_}));
  MustCall(kube::Delete(api::kImexNodes, {"", b_}));
  // What the vanished node held is free with its slot, not before.
  ASSERT_TRUE(Eventually([&] { return api::FindMember(*Domain(), b_) == nullptr; }));
  EXPECT_EQ(Domain()->members, std::vector<api::DomainMember>{a});
  EXPECT_TRUE(Lease(red)) << "node a may hold it: nothing is known of it";
  MakeNode(Name("c"));
  ASSERT_TRUE(Eventually([&] { return Node(Name("c"))->domain.has_value(); }));
  EXPECT_NE(Node(Name("c"))->domain->index, b.index) << "slots never used come first";
  nodes_ = {Name("c")};
  MakeNode(a_);
  EXPECT_TRUE(Eventually([&] { return Node(a_)->domain && Node(a_)->domain->index == a.index; }));
  EXPECT_TRUE(Eventually([&] { return !Lease(red); }));
  MustCall(kube::Delete(api::kNodes, {"", a_}));
}

}  // namespace
}  // namespace cd::integration
