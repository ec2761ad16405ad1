// The node's slice: what it offers, and that it comes back.
#include "src/plugin/slice_publisher.h"

#include <gmock/gmock.h>

#include "src/plugin/prepare_fixture.h"

namespace cd::plugin {
namespace {

using ::testing::HasSubstr;

const api::OwnerReference kOwner{"v1", "Node", kNode, "66666666-6666-4666-8666-666666666666", false};

class SlicePublisherTest : public ::testing::Test {
 protected:
  void Start(const std::string& clique = kDomain, DeviceModeChoice choice = DeviceModeChoice::kAuto) {
    publisher = std::make_unique<SlicePublisher>(executor, api, kNode, 32, choice, 1);
    publisher->Start();
    publisher->BecomePublisher(OwnedBy(kOwner));
    publisher->SetOffer(clique, !clique.empty());
    executor.RunPosted();
  }
  const nlohmann::json& Slice() {
    const auto* slice = api.Find(api::kResourceSlices, {"", SliceName(kNode)});
    static const nlohmann::json kNone;
    return slice == nullptr ? kNone : *slice;
  }
  int Writes() {
    return api.Count("create resourceslices") + api.Count("update resourceslices") + api.Count("delete resourceslices");
  }
  // What a server without DRAConsumableCapacity keeps.
  static void Drop(nlohmann::json& object) {
    for (auto& device : object["spec"]["devices"]) {
      device.erase("allowMultipleAllocations");
      if (device.contains("capacity")) device["capacity"]["slots"].erase("requestPolicy");
    }
  }

  ManualExecutor executor;
  FakeApi api{executor};
  std::unique_ptr<SlicePublisher> publisher;
};

TEST_F(SlicePublisherTest, node_without_fabric_offers_a_channel_device_that_says_so) {
  Start("");
  publisher->SetOffer("", true);
  executor.RunPosted();
  ASSERT_EQ(Slice()["spec"]["devices"].size(), 1u) << "and no daemon";
  const auto& channel = Slice()["spec"]["devices"][0];
  EXPECT_EQ(channel["name"], "channel-0");
  EXPECT_EQ(channel["attributes"],
            nlohmann::json({{"type", {{"string", "channel"}}}, {"id", {{"int", 0}}}, {"fabric", {{"bool", false}}}}));
}

TEST_F(SlicePublisherTest, sick_node_keeps_its_daemon_and_takes_no_new_pods) {
  Start();
  publisher->SetOffer(kDomain, false);
  executor.RunPosted();
  ASSERT_EQ(Slice()["spec"]["devices"].size(), 1u);
  EXPECT_EQ(Slice()["spec"]["devices"][0]["name"], "daemon");
}

TEST_F(SlicePublisherTest, one_shared_channel_device_and_the_daemons) {
  Start();
  const auto& spec = Slice()["spec"];
  EXPECT_EQ(spec["driver"], "compute-domain.nvidia.com");
  EXPECT_EQ(spec["nodeName"], kNode);
  EXPECT_EQ(spec["pool"], nlohmann::json({{"name", kNode}, {"generation", 1}, {"resourceSliceCount", 1}}));
  ASSERT_EQ(spec["devices"].size(), 2u);
  const auto& channel = spec["devices"][0];
  EXPECT_EQ(channel["name"], "channel-0");
  EXPECT_EQ(channel["allowMultipleAllocations"], true);
  EXPECT_EQ(channel["capacity"]["slots"]["value"], "32");
  EXPECT_EQ(channel["capacity"]["slots"]["requestPolicy"]["default"], "1");
  EXPECT_EQ(channel["attributes"]["type"]["string"], "channel");
  EXPECT_EQ(channel["attributes"]["id"]["int"], 0);
  EXPECT_EQ(channel["attributes"]["fabric"]["bool"], true);
  EXPECT_EQ(channel["attributes"]["cliqueID"]["string"], kDomain);
  EXPECT_EQ(spec["devices"][1]["name"], "daemon");
  EXPECT_EQ(spec["devices"][1]["attributes"]["type"]["string"], "daemon");
  EXPECT_EQ(Slice()["metadata"]["ownerReferences"][0]["uid"], kOwner.uid);
  EXPECT_TRUE(publisher->Published());
  EXPECT_EQ(Writes(), 1);
}

TEST_F(SlicePublisherTest, node_without_fabric_has_an_empty_pool_not_a_missing_one) {
  Start("");
  ASSERT_FALSE(Slice().is_null());
  EXPECT_TRUE(Slice()["spec"]["devices"].empty());
  EXPECT_TRUE(publisher->Published());
}

TEST_F(SlicePublisherTest, fabric_that_comes_and_goes_changes_the_slice_in_place) {
  Start("");
  publisher->SetOffer(kDomain, true);
  executor.RunPosted();
  EXPECT_EQ(Slice()["spec"]["devices"].size(), 2u);
  publisher->SetOffer("", false);
  executor.RunPosted();
  EXPECT_TRUE(Slice()["spec"]["devices"].empty());
  EXPECT_EQ(Slice()["spec"]["pool"]["generation"], 1);
  EXPECT_EQ(Writes(), 3);
}

TEST_F(SlicePublisherTest, slice_the_kubelet_wipes_is_created_again_at_once_with_a_new_generation) {
  Start();
  api.Remove(api::kResourceSlices, {"", SliceName(kNode)});
  executor.RunPosted();
  EXPECT_EQ(Slice()["spec"]["pool"]["generation"], 2);
  EXPECT_EQ(api.Count("create resourceslices"), 2);
}

TEST_F(SlicePublisherTest, slice_gone_with_its_node_waits_for_the_node_to_be_there_again) {
  Start();
  std::vector<OnOwner> asked;
  publisher->BecomePublisher([&](OnOwner done) { asked.push_back(std::move(done)); });
  api.Remove(api::kResourceSlices, {"", SliceName(kNode)});
  executor.Advance(Duration(60'000));
  EXPECT_TRUE(Slice().is_null()) << "the garbage collector would take it again, for ever";
  ASSERT_EQ(asked.size(), 1u);
  asked[0]({"v1", "Node", kNode, "77777777-7777-4777-8777-777777777777", false});
  executor.RunPosted();
  EXPECT_EQ(Slice()["metadata"]["ownerReferences"][0]["uid"], "77777777-7777-4777-8777-777777777777");
  publisher->SetOffer("other.1", true);
  executor.RunPosted();
  EXPECT_EQ(Slice()["metadata"]["ownerReferences"][0]["uid"], "77777777-7777-4777-8777-777777777777");
}

TEST_F(SlicePublisherTest, slice_wiped_before_its_creation_is_answered_is_created_again) {
  api.answer_delay = Duration(100);
  Start();
  executor.Advance(Duration(100));  // the first list
  ASSERT_FALSE(Slice().is_null()) << "created, not answered yet";
  api.Remove(api::kResourceSlices, {"", SliceName(kNode)});
  executor.Advance(Duration(1'000));
  EXPECT_FALSE(Slice().is_null());
  EXPECT_TRUE(publisher->Published());
  EXPECT_EQ(api.Count("create resourceslices"), 2);
}

TEST_F(SlicePublisherTest, slice_that_a_write_finds_gone_is_created_again) {
  Start();
  api.watches_deaf = true;
  api.Remove(api::kResourceSlices, {"", SliceName(kNode)});
  publisher->SetOffer("other.1", true);
  executor.Advance(Duration(1'000));
  EXPECT_EQ(Slice()["spec"]["devices"][0]["attributes"]["cliqueID"]["string"], "other.1");
}

TEST_F(SlicePublisherTest, slice_somebody_changed_is_put_right) {
  Start();
  auto changed = Slice();
  changed["spec"]["devices"].erase(0);
  api.Put(api::kResourceSlices, changed);
  executor.RunPosted();
  EXPECT_EQ(Slice()["spec"]["devices"].size(), 2u);
}

TEST_F(SlicePublisherTest, slices_of_another_driver_of_this_name_are_removed_and_their_generation_exceeded) {
  auto old = BuildSlice({kNode, kDomain, true, 32, DeviceMode::kPlain}, 5);
  old["metadata"]["name"] = "node-1-compute-domain-x7k2p";
  api.Put(api::kResourceSlices, old);
  Start();
  EXPECT_EQ(api.Find(api::kResourceSlices, {"", "node-1-compute-domain-x7k2p"}), nullptr);
  EXPECT_EQ(Slice()["spec"]["pool"]["generation"], 6);
}

TEST_F(SlicePublisherTest, highest_generation_there_is_can_be_matched) {
  auto old = BuildSlice({kNode, kDomain, true, 32, DeviceMode::kPlain}, INT64_MAX);
  old["metadata"]["name"] = "node-1-compute-domain-x7k2p";
  api.Put(api::kResourceSlices, old);
  Start();
  EXPECT_FALSE(Slice().is_null());
  EXPECT_TRUE(publisher->Published());
}

TEST_F(SlicePublisherTest, slice_that_is_right_costs_no_write) {
  api.Put(api::kResourceSlices, BuildSlice({kNode, kDomain, true, 32, DeviceMode::kMulti}, 4));
  Start();
  EXPECT_EQ(Writes(), 0);
  EXPECT_TRUE(publisher->Published());
}

TEST_F(SlicePublisherTest, server_that_drops_sharing_gets_plain_devices) {
  api.admit = Drop;
  Start();
  EXPECT_EQ(publisher->mode(), DeviceMode::kPlain);
  const auto& devices = Slice()["spec"]["devices"];
  ASSERT_EQ(devices.size(), 33u);
  EXPECT_EQ(devices[0]["name"], "channel-0");
  EXPECT_EQ(devices[31]["name"], "channel-31");
  EXPECT_EQ(devices[31]["attributes"]["id"]["int"], 0);
  EXPECT_EQ(devices[32]["name"], "daemon");
  EXPECT_EQ(Writes(), 2);
  EXPECT_TRUE(publisher->Published());
}

TEST_F(SlicePublisherTest, forced_sharing_on_such_a_server_is_not_written_in_a_loop) {
  api.admit = Drop;
  Start(kDomain, DeviceModeChoice::kMulti);
  EXPECT_EQ(Writes(), 1);
  executor.Advance(Duration(59'000));
  EXPECT_EQ(Writes(), 1);
}

TEST_F(SlicePublisherTest, server_that_keeps_something_else_is_not_written_to_in_a_loop) {
  int dropped = 0;
  api.admit = [&](nlohmann::json& object) {
    if (++dropped < 50) object["spec"]["devices"].erase(1);
  };
  Start();
  EXPECT_EQ(Writes(), 1);
  EXPECT_FALSE(publisher->Published());
  executor.Advance(Duration(59'000));
  EXPECT_EQ(Writes(), 1);
  executor.Advance(Duration(2'000));
  EXPECT_EQ(Writes(), 2) << "it may have learned in the meantime";
}

TEST_F(SlicePublisherTest, what_the_server_does_not_keep_holds_up_no_other_offer) {
  api.admit = Drop;
  Start(kDomain, DeviceModeChoice::kMulti);
  publisher->SetOffer("other.1", true);
  executor.RunPosted();
  EXPECT_EQ(Slice()["spec"]["devices"][0]["attributes"]["cliqueID"]["string"], "other.1");
  api.Remove(api::kResourceSlices, {"", SliceName(kNode)});
  executor.RunPosted();
  EXPECT_FALSE(Slice().is_null());
}

TEST_F(SlicePublisherTest, offer_that_changes_during_a_write_is_published_after_it) {
  api.answer_delay = Duration(100);
  Start(kDomain, DeviceModeChoice::kMulti);
  executor.Advance(Duration(100));  // the first list; the slice is being created
  publisher->SetOffer("other.1", true);
  executor.Advance(Duration(1'000));
  EXPECT_EQ(Slice()["spec"]["devices"][0]["attributes"]["cliqueID"]["string"], "other.1");
  EXPECT_TRUE(publisher->Published());
}

TEST_F(SlicePublisherTest, change_seen_before_the_answer_to_a_write_that_came_before_it_is_put_right) {
  Start();
  api.answer_delay = Duration(100);
  publisher->SetOffer("other.1", true);
  executor.RunPosted();
  auto changed = Slice();
  changed["spec"]["devices"].erase(0);
  api.Put(api::kResourceSlices, changed);
  executor.Advance(Duration(1'000));
  EXPECT_EQ(Slice()["spec"]["devices"].size(), 2u);
}

TEST_F(SlicePublisherTest, plain_devices_by_choice) {
  Start(kDomain, DeviceModeChoice::kPlain);
  EXPECT_EQ(Slice()["spec"]["devices"].size(), 33u);
  EXPECT_EQ(Writes(), 1);
}

TEST_F(SlicePublisherTest, instance_that_does_not_publish_only_watches) {
  publisher = std::make_unique<SlicePublisher>(executor, api, kNode, 32, DeviceModeChoice::kAuto, 1);
  publisher->Start();
  publisher->SetOffer(kDomain, true);
  executor.RunPosted();
  EXPECT_EQ(Writes(), 0);
  EXPECT_FALSE(publisher->Published());
  api.Put(api::kResourceSlices, BuildSlice({kNode, kDomain, true, 32, DeviceMode::kMulti}, 1));
  executor.RunPosted();
  EXPECT_TRUE(publisher->Published());  // by the other one
}

TEST_F(SlicePublisherTest, refused_write_is_tried_again) {
  api.fault = [](const kube::ApiRequest& request) -> std::optional<Error> {
    if (request.verb != kube::Verb::kCreate) return std::nullopt;
    return Error{ErrorCode::kForbidden, "policy", std::nullopt};
  };
  Start();
  EXPECT_FALSE(publisher->Published());
  api.fault = nullptr;
  executor.Advance(Duration(1'000));
  EXPECT_TRUE(publisher->Published());
}

TEST(DeviceSlice, defaults_of_the_server_do_not_count_as_a_difference) {
  const nlohmann::json wanted{{"a", 1}, {"list", {{{"x", 1}}}}, {"none", nlohmann::json::array()}};
  EXPECT_TRUE(Covers({{"a", 1}, {"b", 2}, {"list", {{{"x", 1}, {"y", 2}}}}}, wanted));
  EXPECT_FALSE(Covers({{"a", 2}, {"list", {{{"x", 1}}}}}, wanted));
  EXPECT_FALSE(Covers({{"a", 1}, {"list", {{{"x", 1}}, {{"x", 2}}}}}, wanted));
}

TEST(DeviceSlice, name_of_a_node_with_the_longest_name_still_fits) {
  const std::string longest(253, 'n');
  EXPECT_LE(SliceName(longest).size(), 253u);
  EXPECT_NE(SliceName(longest), SliceName(longest.substr(1) + "m"));
  EXPECT_THAT(SliceName("node-1"), HasSubstr("node-1"));
}

}  // namespace
}  // namespace cd::plugin
