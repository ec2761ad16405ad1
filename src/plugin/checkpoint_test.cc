// The checkpoint's text form, and the rules that change it.
#include "src/plugin/checkpoint.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <nlohmann/json.hpp>

namespace cd::plugin {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;

constexpr char kRed[] = "22222222-2222-4222-8222-222222222222";
constexpr char kBlue[] = "33333333-3333-4333-8333-333333333333";

ClaimEntry Entry(const std::string& uid, const std::string& compute_domain = kRed, int channel = 7,
                 const std::string& nonce = "n1") {
  ClaimEntry entry;
  entry.claim = {"red-ns", "claim-" + uid, uid};
  entry.nonce = nonce;
  entry.started = SteadyTime(Duration(1234));
  entry.grant = Grant{"clique.1", "domain-uid", "clique.1", channel, {"red-ns", "red", compute_domain}};
  entry.devices = {{"channel", "node-1", "channel-0", "share-1"}};
  return entry;
}

// A claim that went all the way.
void Prepared(Checkpoint& checkpoint, const ClaimEntry& entry) {
  ASSERT_TRUE(Begin(checkpoint, entry, checkpoint.sequence));
  ASSERT_TRUE(Complete(checkpoint, entry.claim.uid, entry.nonce));
}

TEST(CheckpointText, survives_writing_and_reading) {
  Checkpoint checkpoint;
  checkpoint.boot_id = "boot-1";
  Prepared(checkpoint, Entry("a"));
  Prepared(checkpoint, Entry("b"));
  Unprepare(checkpoint, "b");
  ClaimEntry all = Entry("c", kBlue, 8);
  all.grant->all_channels = true;
  ASSERT_TRUE(Begin(checkpoint, all, checkpoint.sequence));
  Rollback(checkpoint, "c", "n1");
  ASSERT_TRUE(Begin(checkpoint, Entry("d", kBlue, 9), checkpoint.sequence));
  checkpoint.maintenance = "";
  const auto read = DecodeCheckpoint(EncodeCheckpoint(checkpoint));
  ASSERT_TRUE(read) << read.error().message;
  EXPECT_EQ(read->claims.at("d"), checkpoint.claims.at("d"));
  EXPECT_EQ(read->lingering, checkpoint.lingering);
  EXPECT_EQ(read->withdrawing, checkpoint.withdrawing);
  EXPECT_EQ(read->unprepared, checkpoint.unprepared);
  EXPECT_EQ(EncodeCheckpoint(*read), EncodeCheckpoint(checkpoint));
}

TEST(CheckpointText, fields_of_a_newer_plugin_are_passed_over) {
  Checkpoint checkpoint;
  Prepared(checkpoint, Entry("a"));
  auto json = nlohmann::json::parse(EncodeCheckpoint(checkpoint));
  json["version"] = 2;
  json["quantum"] = {{"x", 1}};
  json["claims"][0]["colour"] = "red";
  json["claims"][0]["grant"]["speed"] = 9;
  const auto read = DecodeCheckpoint(json.dump());
  ASSERT_TRUE(read);
  EXPECT_NE(FindCompleted(*read, "a"), nullptr);
}

TEST(CheckpointText, fields_an_older_plugin_did_not_write_may_be_missing) {
  const auto read = DecodeCheckpoint(R"({"version":1,"bootID":"b","claims":[
      {"claim":{"namespace":"n","name":"c","uid":"a"},"state":"PrepareCompleted","grant":{"domain":"d","channel":7}}]})");
  ASSERT_TRUE(read) << read.error().message;
  EXPECT_NE(FindCompleted(*read, "a"), nullptr);
  EXPECT_EQ(read->sequence, 0u);
}

class DamagedTextTest : public ::testing::TestWithParam<const char*> {};

TEST_P(DamagedTextTest, is_told_from_an_empty_checkpoint) {
  EXPECT_FALSE(DecodeCheckpoint(GetParam()));
}

INSTANTIATE_TEST_SUITE_P(
    DamagedText, DamagedTextTest,
    ::testing::Values("", "{", "[]", "{}", R"({"version":0})", R"({"version":1,"claims":{}})",
                      R"({"version":1,"claims":[{"claim":{"uid":"../x"},"state":"PrepareStarted"}]})",
                      R"({"version":1,"claims":[{"claim":{"uid":"a"},"state":"Dreaming"}]})",
                      R"({"version":1,"claims":[{"claim":{"uid":"a"},"state":"PrepareStarted","grant":{"channel":0}}]})",
                      R"({"version":1,"lingering":[{"claimUID":"/etc","grant":{"channel":1}}]})",
                      R"({"version":1,"lingering":[{"claimUID":"a","grant":{"channel":0}}]})",
                      R"({"version":1,"withdrawing":[{"channel":-7}]})", R"({"version":1,"sequence":-1})",
                      R"({"version":1,"unprepared":{"a":"3"}})", R"({"version":1,"unprepared":["a"]})",
                      R"({"version":1,"claims":[{"claim":{"uid":"a"},"startedMonotonicMilliseconds":-1}]})",
                      R"({"version":1,"claims":[{"claim":{"uid":"a"}},{"claim":{"uid":"a"}}]})"));

TEST(CheckpointRules, a_started_prepare_is_reported) {
  Checkpoint checkpoint;
  EXPECT_EQ(Begin(checkpoint, Entry("a"), 0).value(), BeginOutcome::kStarted);
  EXPECT_THAT(HeldChannels(checkpoint), ElementsAre(api::NodeChannel{"domain-uid", 7, kRed, "clique.1"}));
  EXPECT_EQ(Begin(checkpoint, Entry("b"), 0).value(), BeginOutcome::kStarted);
}

TEST(CheckpointRules, a_further_claim_of_the_compute_domain_is_only_begun) {
  Checkpoint checkpoint;
  Prepared(checkpoint, Entry("a"));
  EXPECT_EQ(Begin(checkpoint, Entry("b"), 0).value(), BeginOutcome::kStarted);
  Unprepare(checkpoint, "a");
  EXPECT_EQ(Begin(checkpoint, Entry("c"), checkpoint.sequence).value(), BeginOutcome::kStarted);
}

TEST(CheckpointRules, the_same_number_in_another_life_of_the_domain_is_another_channel) {
  Checkpoint checkpoint;
  Prepared(checkpoint, Entry("a"));
  ClaimEntry other = Entry("b");
  other.grant->domain_uid = "later-domain-uid";
  EXPECT_EQ(Begin(checkpoint, other, 0).value(), BeginOutcome::kStarted);
}

TEST(CheckpointRules, a_channel_of_another_owner_is_refused_whatever_holds_it) {
  Checkpoint checkpoint;
  Prepared(checkpoint, Entry("a"));
  EXPECT_THAT(Begin(checkpoint, Entry("b", kBlue, 7), 0).error().message,
              HasSubstr("channel 7 of IMEXDomain clique.1 is still held"));
  Unprepare(checkpoint, "a");
  EXPECT_FALSE(Begin(checkpoint, Entry("b", kBlue, 7), checkpoint.sequence));
  EndLingering(checkpoint, "a");
  EXPECT_TRUE(Begin(checkpoint, Entry("b", kBlue, 7), checkpoint.sequence));
}

TEST(CheckpointRules, a_channel_of_another_imex_domain_is_refused_while_one_is_held_whatever_its_number_and_owner) {
  Checkpoint checkpoint;
  Prepared(checkpoint, Entry("a"));
  ClaimEntry other = Entry("b", kRed, 8);
  other.grant->domain = "exclusive.clique.1";
  EXPECT_THAT(Begin(checkpoint, other, 0).error().message, HasSubstr("channel 7 of IMEXDomain clique.1 is still held"));
  Unprepare(checkpoint, "a");
  EXPECT_FALSE(Begin(checkpoint, other, checkpoint.sequence)) << "it lingers";
  EndLingering(checkpoint, "a");
  EXPECT_TRUE(Begin(checkpoint, other, checkpoint.sequence));
}

ClaimEntry WithoutChannel(const std::string& uid, const std::string& compute_domain, bool exclusive) {
  ClaimEntry entry = Entry(uid, compute_domain);
  entry.grant = Grant{"", "", "", 0, {"red-ns", "red", compute_domain}, false, exclusive};
  return entry;
}

TEST(CheckpointRules, a_node_of_one_compute_domain_takes_no_other_also_without_channels) {
  Checkpoint checkpoint;
  ASSERT_TRUE(Begin(checkpoint, WithoutChannel("a", kRed, true), 0));
  EXPECT_TRUE(Begin(checkpoint, WithoutChannel("b", kRed, true), 0)) << "its own";
  EXPECT_THAT(Begin(checkpoint, WithoutChannel("c", kBlue, false), 0).error().message,
              HasSubstr("this node is still held for ComputeDomain red-ns/red"));
  EXPECT_FALSE(Begin(checkpoint, Entry("d", kBlue), 0)) << "nor one with a channel, should the node get a fabric";
  Unprepare(checkpoint, "a");
  Unprepare(checkpoint, "b");
  EXPECT_TRUE(Begin(checkpoint, WithoutChannel("c", kBlue, false), checkpoint.sequence));
  EXPECT_FALSE(Begin(checkpoint, WithoutChannel("a", kRed, true), checkpoint.sequence)) << "the other way round";
}

TEST(CheckpointRules, pods_without_channel_keep_no_channel_from_others) {
  Checkpoint checkpoint;
  ASSERT_TRUE(Begin(checkpoint, WithoutChannel("a", kRed, false), 0));
  EXPECT_TRUE(Begin(checkpoint, WithoutChannel("b", kBlue, false), 0));
  EXPECT_TRUE(Begin(checkpoint, Entry("c", kBlue), 0));
}

TEST(CheckpointText, whose_node_it_is_stands_there) {
  Checkpoint checkpoint;
  ASSERT_TRUE(Begin(checkpoint, WithoutChannel("a", kRed, true), 0));
  const auto read = DecodeCheckpoint(EncodeCheckpoint(checkpoint));
  ASSERT_TRUE(read);
  EXPECT_TRUE(read->claims.at("a").grant->exclusive);
}

TEST(CheckpointRules, what_a_dead_prepare_of_the_same_claim_left_keeps_it_from_nothing) {
  Checkpoint checkpoint;
  ASSERT_TRUE(Begin(checkpoint, Entry("a"), 0));
  ClaimEntry again = Entry("a", kRed, 1, "n2");
  again.grant->domain = "exclusive.clique.1";
  EXPECT_TRUE(Begin(checkpoint, again, 0));
}

TEST(CheckpointRules, the_last_holder_starts_the_withdrawal_and_no_earlier_one_does) {
  Checkpoint checkpoint;
  Prepared(checkpoint, Entry("a"));
  Prepared(checkpoint, Entry("b"));
  Unprepare(checkpoint, "a");
  EndLingering(checkpoint, "a");
  EXPECT_THAT(checkpoint.withdrawing, IsEmpty());
  Unprepare(checkpoint, "b");
  EXPECT_THAT(checkpoint.withdrawing, IsEmpty());
  EndLingering(checkpoint, "b");
  EXPECT_THAT(checkpoint.withdrawing, ElementsAre(api::NodeChannel{"domain-uid", 7, kRed, "clique.1"}));
  EXPECT_THAT(HeldChannels(checkpoint), IsEmpty());
  EXPECT_EQ(Begin(checkpoint, Entry("c"), checkpoint.sequence).value(), BeginOutcome::kWithdrawing);
  EXPECT_THAT(checkpoint.claims, IsEmpty());
  EndWithdrawal(checkpoint, {{"domain-uid", 7, kRed, "clique.1"}});
  EXPECT_EQ(Begin(checkpoint, Entry("c"), checkpoint.sequence).value(), BeginOutcome::kStarted);
}

TEST(CheckpointRules, a_start_that_replaces_a_dead_one_withdraws_its_other_channel) {
  Checkpoint checkpoint;
  ASSERT_TRUE(Begin(checkpoint, Entry("a", kRed, 7, "dead"), 0));
  ASSERT_TRUE(Begin(checkpoint, Entry("a", kRed, 9, "alive"), 0));
  EXPECT_THAT(checkpoint.withdrawing, ElementsAre(api::NodeChannel{"domain-uid", 7, kRed, "clique.1"}));
  EXPECT_FALSE(Complete(checkpoint, "a", "dead"));
  EXPECT_TRUE(Complete(checkpoint, "a", "alive"));
}

TEST(CheckpointRules, only_the_nonce_that_started_may_complete_or_roll_back) {
  Checkpoint checkpoint;
  ASSERT_TRUE(Begin(checkpoint, Entry("a", kRed, 7, "mine"), 0));
  EXPECT_EQ(Complete(checkpoint, "a", "other").error().code, ErrorCode::kCancelled);
  Rollback(checkpoint, "a", "other");
  EXPECT_EQ(checkpoint.claims.size(), 1u);
  EXPECT_TRUE(Complete(checkpoint, "a", "mine"));
  Rollback(checkpoint, "a", "mine");  // too late: the kubelet was told
  EXPECT_NE(FindCompleted(checkpoint, "a"), nullptr);
}

TEST(CheckpointRules, an_unprepare_refuses_every_prepare_that_began_before_it) {
  Checkpoint checkpoint;
  const std::uint64_t began = checkpoint.sequence;
  Unprepare(checkpoint, "a");
  EXPECT_EQ(Begin(checkpoint, Entry("a"), began).error().code, ErrorCode::kCancelled);
  EXPECT_TRUE(Begin(checkpoint, Entry("a"), checkpoint.sequence));
}

TEST(CheckpointRules, remembered_unprepares_are_bounded_and_the_oldest_go_first) {
  Checkpoint checkpoint;
  for (int i = 0; i < 300; ++i) Unprepare(checkpoint, "claim-" + std::to_string(i));
  EXPECT_EQ(checkpoint.unprepared.size(), 256u);
  EXPECT_FALSE(checkpoint.unprepared.contains("claim-0"));
  EXPECT_TRUE(checkpoint.unprepared.contains("claim-299"));
}

TEST(CheckpointRules, an_unprepared_start_does_not_linger) {
  Checkpoint checkpoint;
  ASSERT_TRUE(Begin(checkpoint, Entry("a"), 0));
  Unprepare(checkpoint, "a");
  EXPECT_THAT(checkpoint.lingering, IsEmpty());
  EXPECT_EQ(checkpoint.withdrawing.size(), 1u);
}

TEST(CheckpointRules, a_claim_that_lingers_while_it_is_prepared_again_lingers_on_when_that_fails) {
  Checkpoint checkpoint;
  Prepared(checkpoint, Entry("a"));
  Unprepare(checkpoint, "a");
  ASSERT_TRUE(Begin(checkpoint, Entry("a"), checkpoint.sequence));
  Rollback(checkpoint, "a", "n1");
  EXPECT_TRUE(checkpoint.lingering.contains("a"));
  EXPECT_THAT(checkpoint.withdrawing, IsEmpty());
}

TEST(CheckpointRules, maintenance_waits_for_the_last_channel_and_then_stops_every_start) {
  Checkpoint checkpoint;
  Prepared(checkpoint, Entry("a"));
  EXPECT_FALSE(SetMaintenance(checkpoint, "m1"));
  Unprepare(checkpoint, "a");
  EXPECT_FALSE(SetMaintenance(checkpoint, "m1"));
  EndLingering(checkpoint, "a");
  EXPECT_FALSE(SetMaintenance(checkpoint, "m1"));  // the API does not know yet
  EndWithdrawal(checkpoint, checkpoint.withdrawing);
  EXPECT_TRUE(SetMaintenance(checkpoint, "m1"));
  EXPECT_FALSE(Begin(checkpoint, Entry("b"), checkpoint.sequence));
  EXPECT_TRUE(SetMaintenance(checkpoint, ""));
  EXPECT_TRUE(Begin(checkpoint, Entry("b"), checkpoint.sequence));
}

}  // namespace
}  // namespace cd::plugin
