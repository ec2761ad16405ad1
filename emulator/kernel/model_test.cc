#include "emulator/kernel/model.h"

#include <gtest/gtest.h>

namespace emu::kernel {
namespace {

constexpr ClientId kImex = 100;
constexpr int kOwnNode = 3;
const Clique kClique{"rack", 1};
const Clique kOtherClique{"rack", 2};
const Memory kMemory{kClique, 4096, "content"};

class ModelTest : public ::testing::Test {
 protected:
  void Client(ClientId id, int channel) {
    model.AddClient(id);
    ASSERT_EQ(model.Subscribe(id, channel, true), NvStatus::kOk);
  }
  void StartImex() {
    model.AddClient(kImex);
    ASSERT_EQ(model.OpenSession(kImex, kOwnNode, true), NvStatus::kOk);
  }
  NvStatus ImportStatus(ClientId id, const Handle& handle, const Clique& mapper = kClique) {
    const auto result = model.Import(id, handle, mapper);
    return result ? NvStatus::kOk : result.error();
  }
  // Starts a remote import and returns its token.
  uint64_t StartRemote(ClientId id, const Handle& handle) {
    const auto result = model.Import(id, handle, kClique);
    return std::get<Model::Pending>(result.value()).token;
  }
  template <class What>
  static std::vector<std::pair<ClientId, What>> Of(const Notices& notices) {
    std::vector<std::pair<ClientId, What>> found;
    for (const Notice& notice : notices) {
      if (const auto* what = std::get_if<What>(&notice.what)) found.emplace_back(notice.to, *what);
    }
    return found;
  }

  Model model{2048};
};

TEST_F(ModelTest, a_client_keeps_its_channel_for_life) {
  Client(1, 5);
  EXPECT_EQ(model.Subscribe(1, 5, true), NvStatus::kOk);
  EXPECT_EQ(model.Subscribe(1, 6, true), NvStatus::kStateInUse);
  EXPECT_EQ(model.SubscribedChannel(1), 5);
}

TEST_F(ModelTest, a_channel_not_possessed_is_not_subscribed) {
  model.AddClient(1);
  EXPECT_EQ(model.Subscribe(1, 5, false), NvStatus::kInsufficientPermissions);
  EXPECT_EQ(model.Subscribe(1, 2048, true), NvStatus::kInsufficientPermissions);
  EXPECT_EQ(model.Subscribe(1, -1, true), NvStatus::kInsufficientPermissions);
  EXPECT_EQ(model.SubscribedChannel(1), std::nullopt);
}

TEST_F(ModelTest, no_channels_at_all_is_not_supported) {
  Model off(0);
  off.AddClient(1);
  EXPECT_EQ(off.Subscribe(1, 0, true), NvStatus::kNotSupported);
}

TEST_F(ModelTest, export_and_import_need_a_channel) {
  model.AddClient(1);
  EXPECT_EQ(model.Export(1, kMemory).error(), NvStatus::kInsufficientPermissions);
  EXPECT_EQ(ImportStatus(1, {kOwnNode, 1}), NvStatus::kInsufficientPermissions);
}

TEST_F(ModelTest, handles_carry_the_node_of_the_session) {
  Client(1, 5);
  EXPECT_EQ(model.Export(1, kMemory)->node_id, kNoNodeId);
  StartImex();
  EXPECT_EQ(*model.Export(1, kMemory), (Handle{kOwnNode, 2}));
}

TEST_F(ModelTest, local_import_compares_channel_and_clique) {
  Client(1, 5);
  Client(2, 5);
  Client(3, 6);
  const Handle handle = *model.Export(1, kMemory);
  EXPECT_EQ(std::get<Memory>(*model.Import(2, handle, kClique)), kMemory);
  EXPECT_EQ(ImportStatus(3, handle), NvStatus::kInsufficientPermissions);
  EXPECT_EQ(ImportStatus(2, handle, kOtherClique), NvStatus::kInvalidObject);
}

TEST_F(ModelTest, remote_handle_without_session_is_not_supported) {
  Client(1, 5);
  EXPECT_EQ(ImportStatus(1, {7, 1}), NvStatus::kNotSupported);
}

TEST_F(ModelTest, remote_import_carries_the_importers_channel) {
  Client(1, 5);
  StartImex();
  const auto result = model.Import(1, {7, 11}, kClique);
  const auto forwarded = Of<ForwardImport>(std::get<Model::Pending>(*result).notices);
  ASSERT_EQ(forwarded.size(), 1U);
  EXPECT_EQ(forwarded[0].first, kImex);
  EXPECT_EQ(forwarded[0].second.handle, (Handle{7, 11}));
  EXPECT_EQ(forwarded[0].second.channel, 5);
}

TEST_F(ModelTest, finished_import_reaches_its_client) {
  Client(1, 5);
  StartImex();
  const auto done = Of<ImportDone>(model.FinishImport(kImex, StartRemote(1, {7, 1}), kMemory));
  ASSERT_EQ(done.size(), 1U);
  EXPECT_EQ(done[0].first, 1U);
  EXPECT_EQ(*done[0].second.result, kMemory);
}

TEST_F(ModelTest, finished_import_of_another_clique_is_given_back) {
  Client(1, 5);
  StartImex();
  const Memory foreign{kOtherClique, 1, ""};
  const Notices notices = model.FinishImport(kImex, StartRemote(1, {7, 1}), foreign);
  EXPECT_EQ(Of<ReleaseImport>(notices).at(0).second.handle, (Handle{7, 1}));
  EXPECT_EQ(Of<ImportDone>(notices).at(0).second.result.error(), NvStatus::kInvalidObject);
}

TEST_F(ModelTest, import_finished_after_its_client_ended_is_given_back) {
  Client(1, 5);
  StartImex();
  const uint64_t token = StartRemote(1, {7, 1});
  EXPECT_TRUE(model.RemoveClient(1).empty());
  const Notices notices = model.FinishImport(kImex, token, kMemory);
  EXPECT_EQ(Of<ReleaseImport>(notices).size(), 1U);
  EXPECT_EQ(notices.size(), 1U);
}

TEST_F(ModelTest, end_of_an_importer_is_told_to_the_exporters_node) {
  Client(1, 5);
  StartImex();
  model.FinishImport(kImex, StartRemote(1, {7, 1}), kMemory);
  EXPECT_EQ(Of<ReleaseImport>(model.RemoveClient(1)).at(0).second.handle, (Handle{7, 1}));
}

TEST_F(ModelTest, only_one_session_and_only_with_the_capability) {
  model.AddClient(kImex);
  model.AddClient(101);
  EXPECT_EQ(model.OpenSession(kImex, kOwnNode, false), NvStatus::kInsufficientPermissions);
  EXPECT_EQ(model.OpenSession(kImex, kNoNodeId, true), NvStatus::kInvalidArgument);
  EXPECT_EQ(model.OpenSession(kImex, kOwnNode, true), NvStatus::kOk);
  EXPECT_EQ(model.OpenSession(101, kOwnNode, true), NvStatus::kInUse);
  model.RemoveClient(kImex);
  EXPECT_EQ(model.OpenSession(101, kOwnNode, true), NvStatus::kOk);
}

TEST_F(ModelTest, only_the_session_acts_for_other_nodes) {
  Client(1, 5);
  StartImex();
  const Handle handle = *model.Export(1, kMemory);
  EXPECT_EQ(model.Duplicate(1, handle.counter, 5, 7).error(), NvStatus::kInsufficientPermissions);
  EXPECT_EQ(model.ReleaseDuplicate(1, handle.counter, 7), NvStatus::kInsufficientPermissions);
  EXPECT_EQ(model.DropNode(1, 7).error(), NvStatus::kInsufficientPermissions);
  const uint64_t token = StartRemote(1, {7, 1});
  EXPECT_TRUE(model.FinishImport(1, token, kMemory).empty());
  EXPECT_TRUE(model.CloseSession(1).empty());
  EXPECT_TRUE(model.HasSession());
}

TEST_F(ModelTest, duplicate_compares_the_channel_the_importers_node_reports) {
  Client(1, 5);
  StartImex();
  const Handle handle = *model.Export(1, kMemory);
  EXPECT_EQ(*model.Duplicate(kImex, handle.counter, 5, 7), kMemory);
  EXPECT_EQ(model.Duplicate(kImex, handle.counter, 6, 7).error(), NvStatus::kInsufficientPermissions);
  EXPECT_EQ(model.Duplicate(kImex, 4711, 5, 7).error(), NvStatus::kObjectNotFound);
}

TEST_F(ModelTest, duplicated_memory_outlives_its_exporter_until_released) {
  Client(1, 5);
  StartImex();
  const uint64_t counter = model.Export(1, kMemory)->counter;
  ASSERT_TRUE(model.Duplicate(kImex, counter, 5, 7));
  model.RemoveClient(1);
  EXPECT_TRUE(model.Duplicate(kImex, counter, 5, 8));
  EXPECT_EQ(model.ReleaseDuplicate(kImex, counter, 7), NvStatus::kOk);
  EXPECT_EQ(model.ReleaseDuplicate(kImex, counter, 7), NvStatus::kObjectNotFound);
  EXPECT_EQ(model.ReleaseDuplicate(kImex, counter, 8), NvStatus::kOk);
  EXPECT_EQ(model.Duplicate(kImex, counter, 5, 7).error(), NvStatus::kObjectNotFound);
}

TEST_F(ModelTest, lost_node_takes_its_imports_and_returns_its_duplicates) {
  Client(1, 5);
  StartImex();
  const uint64_t counter = model.Export(1, kMemory)->counter;
  ASSERT_TRUE(model.Duplicate(kImex, counter, 5, 7));
  model.FinishImport(kImex, StartRemote(1, {7, 1}), kMemory);
  model.FinishImport(kImex, StartRemote(1, {8, 1}), kMemory);
  const auto lost = Of<ImportInvalidated>(*model.DropNode(kImex, 7));
  ASSERT_EQ(lost.size(), 1U);
  EXPECT_EQ(lost[0].second.handle, (Handle{7, 1}));
  EXPECT_EQ(model.ReleaseDuplicate(kImex, counter, 7), NvStatus::kObjectNotFound);
}

TEST_F(ModelTest, client_that_lost_an_import_can_do_no_more) {
  Client(1, 5);
  StartImex();
  model.FinishImport(kImex, StartRemote(1, {7, 1}), kMemory);
  ASSERT_TRUE(model.DropNode(kImex, 7));
  EXPECT_EQ(model.Export(1, kMemory).error(), NvStatus::kInvalidState);
  EXPECT_EQ(ImportStatus(1, {7, 1}), NvStatus::kInvalidState);
  Client(2, 5);
  EXPECT_TRUE(model.Export(2, kMemory));
}

TEST_F(ModelTest, session_loss_clears_its_exports_and_disables_importers) {
  Client(1, 5);
  Client(2, 5);
  StartImex();
  const Handle handle = *model.Export(1, kMemory);
  model.FinishImport(kImex, StartRemote(2, {7, 1}), kMemory);
  const uint64_t pending = StartRemote(1, {7, 2});
  const Notices notices = model.RemoveClient(kImex);
  EXPECT_EQ(Of<ImportInvalidated>(notices).at(0).first, 2U);
  EXPECT_EQ(Of<ImportDone>(notices).at(0).second.token, pending);
  StartImex();
  EXPECT_EQ(model.Duplicate(kImex, handle.counter, 5, 7).error(), NvStatus::kObjectNotFound);
}

TEST_F(ModelTest, session_loss_spares_what_was_exported_and_imported_without_it) {
  Client(1, 5);
  Client(2, 5);
  const Handle handle = *model.Export(1, kMemory);
  ASSERT_EQ(ImportStatus(2, handle), NvStatus::kOk);
  StartImex();
  EXPECT_TRUE(Of<ImportInvalidated>(model.RemoveClient(kImex)).empty());
  EXPECT_EQ(ImportStatus(2, handle), NvStatus::kOk);
}

TEST_F(ModelTest, crash_with_dangling_duplicates_blocks_allocation_until_a_new_session) {
  Client(1, 5);
  StartImex();
  ASSERT_TRUE(model.Duplicate(kImex, model.Export(1, kMemory)->counter, 5, 7));
  model.RemoveClient(kImex);
  EXPECT_TRUE(model.AllocationBlocked());
  EXPECT_EQ(model.Export(1, kMemory).error(), NvStatus::kInvalidState);
  StartImex();
  EXPECT_FALSE(model.AllocationBlocked());
  EXPECT_TRUE(model.Export(1, kMemory));
}

TEST_F(ModelTest, orderly_end_of_the_session_blocks_nothing_but_disables_importers) {
  Client(1, 5);
  StartImex();
  ASSERT_TRUE(model.Duplicate(kImex, model.Export(1, kMemory)->counter, 5, 7));
  model.FinishImport(kImex, StartRemote(1, {7, 1}), kMemory);
  EXPECT_EQ(Of<ImportInvalidated>(model.CloseSession(kImex)).size(), 1U);
  EXPECT_FALSE(model.AllocationBlocked());
  EXPECT_FALSE(model.HasSession());
}

}  // namespace
}  // namespace emu::kernel
