#include "src/kube/informer.h"

#include <gtest/gtest.h>

#include <fmt/format.h>

#include "src/base/manual_executor.h"
#include "src/kube/scripted_client.h"

namespace cd::kube {
namespace {

using nlohmann::json;

struct Thing {
  api::ObjectMeta meta;
};

Result<Thing> DecodeThing(const json& object) {
  if (object.contains("broken")) return Fail(ErrorCode::kInvalidArgument, "broken");
  auto meta = api::DecodeMeta(object);
  if (!meta) return Fail(std::move(meta.error()));
  return Thing{*std::move(meta)};
}

json Object(const std::string& name, const std::string& uid, int version) {
  return {{"metadata", {{"name", name}, {"uid", uid}, {"resourceVersion", std::to_string(version)}}}};
}
// A vector, because json{x} is an array of one for g++ and x itself for clang.
json ListOf(int version, std::vector<json> items) {
  return {{"metadata", {{"resourceVersion", std::to_string(version)}}}, {"items", std::move(items)}};
}
json EventOf(const char* type, json object) {
  return {{"type", type}, {"object", std::move(object)}};
}

class InformerTest : public testing::Test {
 protected:
  void SetUp() override { Make(); }
  void Make() {
    informer_ = std::make_unique<Informer<Thing>>(client_, executor_,
                                                  InformerOptions{.type = api::kNodes, .label_selector = "a=b"}, &DecodeThing);
    informer_->AddHandler([this](ChangeType type, const Informer<Thing>::Ptr& object) {
      log_ += fmt::format("{}{}/{}@{} ", "+~-"[static_cast<int>(type)], object -> meta.name, object->meta.uid,
                          object->meta.resource_version);
    });
    informer_->Start();
  }
  // What handlers were told since the last question.
  std::string Told() { return std::exchange(log_, ""); }
  // Lists `items` and is left with an open watch.
  void Sync(std::vector<json> items = {}) {
    client_.Answer(ListOf(10, std::move(items)));
    Told();
  }

  ManualExecutor executor_;
  ScriptedClient client_;
  std::unique_ptr<Informer<Thing>> informer_;
  std::string log_;
};

TEST_F(InformerTest, lists_from_the_cache_then_watches_from_there) {
  bool synced = false;
  informer_->OnSynced([&] { synced = true; });
  EXPECT_FALSE(informer_->Synced());
  const ApiRequest list = client_.Answer(ListOf(10, {Object("a", "u1", 3), Object("b", "u2", 4)}));
  EXPECT_EQ(list.query.at("resourceVersion"), "0");
  EXPECT_EQ(list.query.at("labelSelector"), "a=b");
  EXPECT_TRUE(synced);
  EXPECT_EQ(Told(), "+a/u1@3 +b/u2@4 ");
  const auto& query = client_.Newest().request.query;
  EXPECT_EQ(query.at("resourceVersion"), "10");
  EXPECT_EQ(query.at("allowWatchBookmarks"), "true");
  const int timeout = std::stoi(query.at("timeoutSeconds"));
  EXPECT_GE(timeout, 300);
  EXPECT_LE(timeout, 600);
  EXPECT_EQ(client_.Newest().request.idle_timeout / 1000, std::chrono::milliseconds(timeout + 5));
}

TEST_F(InformerTest, fresh_copy_begins_with_a_quorum_list) {
  ScriptedClient client;
  Informer<Thing> informer(client, executor_, InformerOptions{.type = api::kNodes, .fresh = true}, &DecodeThing);
  informer.Start();
  EXPECT_FALSE(client.Answer(ListOf(10, json::array())).query.contains("resourceVersion"));
}

TEST_F(InformerTest, every_list_is_told_when_the_store_has_it) {
  std::vector<std::string> told;
  informer_->OnListed(
      [&](const std::string& version) { told.push_back(version + " with " + std::to_string(informer_->objects().size())); });
  Sync({Object("a", "u1", 3)});
  client_.Event(EventOf("ERROR", {{"kind", "Status"}, {"code", 410}, {"reason", "Expired"}}));
  client_.Answer(ListOf(20, json::array()));
  EXPECT_EQ(told, (std::vector<std::string>{"10 with 1", "20 with 0"}));
}

TEST_F(InformerTest, events_change_the_store_and_tell_handlers) {
  Sync({Object("a", "u1", 3)});
  client_.Event(EventOf("ADDED", Object("b", "u2", 11)));
  client_.Event(EventOf("MODIFIED", Object("a", "u1", 12)));
  client_.Event(EventOf("DELETED", Object("b", "u2", 13)));
  EXPECT_EQ(Told(), "+b/u2@11 ~a/u1@12 -b/u2@11 ");
  EXPECT_EQ(informer_->objects().size(), 1U);
  EXPECT_EQ(informer_->Get({"", "a"})->meta.resource_version, "12");
  EXPECT_EQ(informer_->Get({"", "b"}), nullptr);
}

TEST_F(InformerTest, same_version_again_is_no_news) {
  Sync({Object("a", "u1", 3)});
  client_.Event(EventOf("MODIFIED", Object("a", "u1", 3)));
  EXPECT_EQ(Told(), "");
}

TEST_F(InformerTest, end_of_the_watch_watches_on_from_the_last_version_without_a_list) {
  Sync();
  client_.Event(EventOf("ADDED", Object("a", "u1", 11)));
  client_.Event(EventOf("BOOKMARK", {{"metadata", {{"resourceVersion", "20"}}}}));
  client_.End({});
  EXPECT_EQ(client_.streams.size(), 2U);
  EXPECT_FALSE(client_.streams[0]->alive);
  EXPECT_EQ(client_.Newest().request.query.at("resourceVersion"), "20");
  EXPECT_EQ(client_.requests.size(), 1U);
}

TEST_F(InformerTest, delete_and_create_missed_by_the_watch_is_two_changes) {
  Sync({Object("a", "u1", 3)});
  client_.Event(EventOf("MODIFIED", Object("a", "u2", 12)));
  EXPECT_EQ(Told(), "-a/u1@3 +a/u2@12 ");
}

TEST_F(InformerTest, expired_watch_lists_anew_and_finds_what_was_missed) {
  Sync({Object("a", "u1", 3), Object("b", "u2", 4), Object("c", "u3", 5)});
  client_.Event(EventOf("BOOKMARK", {{"metadata", {{"resourceVersion", "20"}}}}));
  client_.Event({{"type", "ERROR"}, {"object", {{"code", 410}, {"reason", "Expired"}, {"message", "too old"}}}});
  EXPECT_FALSE(client_.streams[0]->alive);
  const ApiRequest list = client_.Answer(ListOf(30, {Object("a", "u1", 3), Object("b", "u2", 25), Object("d", "u4", 26)}));
  EXPECT_FALSE(list.query.contains("resourceVersion"));
  EXPECT_EQ(Told(), "-c/u3@5 ~b/u2@25 +d/u4@26 ");
  EXPECT_EQ(client_.Newest().request.query.at("resourceVersion"), "30");
}

TEST_F(InformerTest, outage_is_found_over_within_two_seconds) {
  Sync();
  Error refused{ErrorCode::kUnavailable, "connection refused"};
  refused.not_sent = true;
  executor_.Advance(std::chrono::minutes(1));
  client_.End(Fail(ErrorCode::kUnavailable, "reset"));  // the connection that lived is tried again at once
  EXPECT_EQ(client_.streams.size(), 2U);
  for (int i = 0; i < 50; ++i) {
    client_.End(Fail(refused));
    const std::size_t before = client_.streams.size();
    executor_.Advance(std::chrono::seconds(2));
    ASSERT_EQ(client_.streams.size(), before + 1);
  }
  EXPECT_EQ(client_.Newest().request.query.at("resourceVersion"), "10");
  EXPECT_EQ(client_.requests.size(), 1U) << "an outage costs no list";
}

TEST_F(InformerTest, watches_that_end_at_once_make_a_quorum_list) {
  Sync();
  for (int i = 0; i < 5; ++i) {
    EXPECT_EQ(client_.Unanswered(), 0U);
    client_.End({});
    executor_.Advance(executor_.UntilNextTimer());
  }
  EXPECT_FALSE(client_.Answer(ListOf(11, {})).query.contains("resourceVersion"));
}

TEST_F(InformerTest, failed_list_is_tried_again) {
  client_.Answer(Fail(ErrorCode::kForbidden, "no"));
  EXPECT_EQ(client_.Unanswered(), 0U);
  executor_.Advance(Duration(1600));
  Sync();
  EXPECT_TRUE(informer_->Synced());
}

TEST_F(InformerTest, undecodable_object_counts_as_absent_until_it_is_mended) {
  Sync({Object("a", "u1", 3)});
  json broken = Object("a", "u1", 12);
  broken["broken"] = true;
  client_.Event(EventOf("MODIFIED", broken));
  EXPECT_EQ(Told(), "-a/u1@3 ");
  client_.Event(EventOf("MODIFIED", Object("a", "u1", 13)));
  EXPECT_EQ(Told(), "+a/u1@13 ");
}

TEST_F(InformerTest, undecodable_object_is_logged_once_per_version) {
  json broken = Object("a", "u1", 12);
  broken["broken"] = true;
  testing::internal::CaptureStderr();
  Sync({broken});
  client_.Event(EventOf("MODIFIED", broken));
  const std::string log = testing::internal::GetCapturedStderr();
  EXPECT_EQ(std::count(log.begin(), log.end(), '\n'), 1);
}

TEST_F(InformerTest, garbage_in_the_stream_makes_a_list) {
  Sync();
  client_.streams.back()->on_event("not json");
  EXPECT_FALSE(client_.streams[0]->alive);
  executor_.Advance(Duration(1600));
  EXPECT_EQ(client_.Answer(ListOf(11, {})).query.at("resourceVersion"), "10");
}

TEST_F(InformerTest, fields_of_another_type_throw_nothing) {
  client_.Answer(json{{"metadata", {{"resourceVersion", "10"}}}, {"items", "none"}});
  EXPECT_TRUE(informer_->objects().empty());
  for (const json& event : {json{{"type", 1}, {"object", json::object()}}, json{{"type", "ADDED"}, {"object", "a"}}, json(7)}) {
    client_.Event(event);
    EXPECT_FALSE(client_.Newest().alive) << event;
    executor_.Advance(std::chrono::minutes(1));
    client_.Answer(ListOf(11, {}));
  }
  client_.Event(EventOf("ADDED", Object("a", "u1", 13)));
  EXPECT_EQ(informer_->objects().size(), 1U);
}

TEST_F(InformerTest, what_has_no_version_is_no_place_to_watch_from) {
  const json unusable[] = {json::object(), {{"resourceVersion", ""}}, {{"resourceVersion", "0"}}, {{"resourceVersion", 10}}};
  for (const json& metadata : unusable) {
    client_.Answer(json{{"metadata", metadata}, {"items", json::array()}});
    EXPECT_FALSE(informer_->Synced()) << metadata;
    EXPECT_TRUE(client_.streams.empty()) << metadata;
    executor_.Advance(std::chrono::minutes(1));
  }
  Sync();
  for (const json& metadata : unusable) {
    client_.Event({{"type", "BOOKMARK"}, {"object", {{"metadata", metadata}}}});
    EXPECT_FALSE(client_.Newest().alive) << metadata;
    executor_.Advance(std::chrono::minutes(1));
    EXPECT_EQ(client_.Answer(ListOf(10, {})).query.at("resourceVersion"), "10");
  }
}

TEST_F(InformerTest, late_handler_is_told_everything) {
  Sync({Object("a", "u1", 3), Object("b", "u2", 4)});
  int added = 0;
  informer_->AddHandler([&](ChangeType type, const auto&) { added += type == ChangeType::kAdded ? 1 : 100; });
  EXPECT_EQ(added, 2);
}

TEST_F(InformerTest, destroyed_informer_hears_nothing_more) {
  Sync();
  informer_.reset();
  EXPECT_FALSE(client_.Newest().alive);
  Make();
  informer_.reset();
  client_.Answer(ListOf(10, {Object("a", "u1", 3)}));
  EXPECT_EQ(Told(), "");
}

}  // namespace
}  // namespace cd::kube
