#include "src/controller/store.h"

#include <gtest/gtest.h>

namespace cd::controller {
namespace {

struct Thing {
  api::ObjectMeta meta;
};

std::shared_ptr<const Thing> Make(const std::string& uid, const std::string& version) {
  Thing thing;
  thing.meta.name = "a";
  thing.meta.uid = uid;
  thing.meta.resource_version = version;
  return std::make_shared<const Thing>(thing);
}

std::string VersionIn(const Store<Thing>& store) {
  const auto thing = store.Get({"", "a"});
  return thing ? thing->meta.resource_version : "none";
}

TEST(StoreTest, event_older_than_our_own_write_is_ignored) {
  Store<Thing> store;
  store.Put(Make("u", "9"), Source::kWatch);
  store.Put(Make("u", "12"), Source::kWrite);
  EXPECT_FALSE(store.Put(Make("u", "10"), Source::kWatch));
  EXPECT_FALSE(store.Put(Make("u", "12"), Source::kWatch));
  EXPECT_EQ(VersionIn(store), "12");
  EXPECT_TRUE(store.Put(Make("u", "13"), Source::kWatch));
}

TEST(StoreTest, versions_are_numbers_not_text) {
  Store<Thing> store;
  store.Put(Make("u", "9"), Source::kWatch);
  EXPECT_TRUE(store.Put(Make("u", "10"), Source::kWatch));
}

TEST(StoreTest, late_answer_does_not_bring_a_deleted_object_back) {
  Store<Thing> store;
  store.Put(Make("u", "9"), Source::kWatch);
  store.Remove(Make("u", "11"));
  EXPECT_FALSE(store.Put(Make("u", "10"), Source::kWrite));
  EXPECT_EQ(VersionIn(store), "none");
  EXPECT_TRUE(store.WasDeleted("u"));
}

TEST(StoreTest, deletion_of_the_predecessor_leaves_the_successor) {
  Store<Thing> store;
  store.Put(Make("old", "9"), Source::kWatch);
  store.Put(Make("new", "12"), Source::kWrite);
  store.Remove(Make("old", "11"));
  EXPECT_EQ(VersionIn(store), "12");
}

TEST(StoreTest, what_a_list_should_have_had_is_told_and_what_is_newer_is_not) {
  Store<Thing> store;
  store.Put(Make("u", "12"), Source::kWrite);
  EXPECT_TRUE(store.Unlisted("11", {}).empty()) << "it came after the list";
  EXPECT_TRUE(store.Unlisted("13", {{{"", "a"}, Make("u", "9")}}).empty()) << "the copy is old, but it is there";
  ASSERT_EQ(store.Unlisted("13", {}).size(), 1U);
  EXPECT_EQ(store.Unlisted("13", {{{"", "a"}, Make("another", "13")}}).size(), 1U) << "its name has a new bearer";
}

TEST(StoreTest, object_that_can_be_decoded_again_comes_back) {
  Store<Thing> store;
  store.Put(Make("u", "9"), Source::kWatch);
  store.Remove(Make("u", "9"));
  EXPECT_TRUE(store.Put(Make("u", "11"), Source::kWatch));
  EXPECT_FALSE(store.WasDeleted("u"));
}

}  // namespace
}  // namespace cd::controller
