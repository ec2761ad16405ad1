#include "emulator/node/node_state.h"

#include <gtest/gtest.h>

#include <set>

#include "emulator/node/handle.h"
#include "emulator/node/nv_status.h"

namespace emu {
namespace {

std::string WithGpu(const std::string& members) {
  return R"({"driverVersion":"580.1","gpus":[{"uuid":"GPU-1")" + members + "}]}";
}

TEST(NodeState, a_gpu_needs_only_a_uuid) {
  const auto state = ParseNodeState(WithGpu(""));
  ASSERT_TRUE(state);
  EXPECT_EQ(state->channel_count, 2048);
  EXPECT_EQ(state->imex_version, "580.1");
  EXPECT_EQ(state->gpus[0].state, FabricState::kCompleted);
  EXPECT_FALSE(state->gpus[0].FabricReady()) << "a zero cluster UUID is no fabric";
}

TEST(NodeState, cluster_uuid_is_read_with_and_without_dashes) {
  for (const char* text : {"6a130f54-1c66-4f20-9a5b-0d2f0f6f7a11", "6A130F541C664F209A5B0D2F0F6F7A11"}) {
    const auto state = ParseNodeState(WithGpu(std::string(R"(,"clusterUuid":")") + text + "\""));
    ASSERT_TRUE(state) << state.error().message;
    EXPECT_EQ(state->gpus[0].cluster_uuid[0], 0x6a);
    EXPECT_EQ(state->gpus[0].cluster_uuid[15], 0x11);
    EXPECT_TRUE(state->gpus[0].FabricReady());
  }
}

TEST(NodeState, bad_members_are_named) {
  for (const char* members : {R"(,"clusterUuid":"6a13")", R"(,"clusterUuid":"zz130f541c664f209a5b0d2f0f6f7a11")",
                              R"(,"state":"perfect")", R"(,"status":"odd")"}) {
    const auto state = ParseNodeState(WithGpu(members));
    ASSERT_FALSE(state) << members;
    EXPECT_NE(state.error().message.find("gpus[0]"), std::string::npos);
  }
  EXPECT_FALSE(ParseNodeState("{}"));
  EXPECT_FALSE(ParseNodeState("nonsense"));
}

TEST(NodeState, degraded_or_forming_gpu_has_no_ready_fabric) {
  const std::string cluster = R"(,"clusterUuid":"6a130f54-1c66-4f20-9a5b-0d2f0f6f7a11")";
  EXPECT_FALSE(ParseNodeState(WithGpu(cluster + R"(,"status":"not_supported")"))->gpus[0].FabricReady());
  EXPECT_FALSE(ParseNodeState(WithGpu(cluster + R"(,"status":15)"))->gpus[0].FabricReady());
  EXPECT_FALSE(ParseNodeState(WithGpu(cluster + R"(,"state":"in_progress")"))->gpus[0].FabricReady());
}

TEST(HandleText, is_read_back) {
  EXPECT_EQ(ParseHandle("3:18446744073709551615"), (Handle{3, 18446744073709551615ULL}));
  EXPECT_EQ(ToString(*ParseHandle("65535:1")), "65535:1");
}

TEST(HandleText, anything_else_is_refused) {
  for (const char* text : {"", "3", "3:", ":1", "3:1x", "65536:1", "-1:1", "3:-1", "3:18446744073709551616"}) {
    EXPECT_FALSE(ParseHandle(text)) << text;
  }
}

TEST(NvStatusTable, is_in_the_order_of_the_enumeration_with_distinct_exit_codes) {
  std::set<int> codes;
  for (size_t i = 0; i < kNvStatusNames.size(); ++i) {
    EXPECT_EQ(static_cast<size_t>(kNvStatusNames[i].status), i);
    EXPECT_EQ(NvStatusFromName(kNvStatusNames[i].nv), kNvStatusNames[i].status);
    codes.insert(kNvStatusNames[i].exit_code);
  }
  EXPECT_EQ(codes.size(), kNvStatusNames.size());
}

}  // namespace
}  // namespace emu
