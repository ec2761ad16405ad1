#include "src/api/meta.h"

#include <gtest/gtest.h>

#include <nlohmann/json.hpp>

#include "src/api/resource_version.h"

namespace cd::api {
namespace {

TEST(ResourceVersion, order_is_of_numbers_and_anything_else_is_unordered) {
  EXPECT_TRUE(VersionOrder("9", "10") < 0);
  EXPECT_TRUE(VersionOrder("10", "9") > 0);
  EXPECT_TRUE(VersionOrder("10", "10") == 0);
  for (const char* unknown : {"", "9x", "x", "-1", "99999999999999999999999"}) {
    EXPECT_TRUE(VersionOrder(unknown, "10") == std::partial_ordering::unordered) << unknown;
    EXPECT_TRUE(VersionOrder("1", unknown) == std::partial_ordering::unordered) << unknown;
  }
}

using nlohmann::json;

TEST(Meta, what_a_writer_owns_survives_a_round_trip) {
  ObjectMeta meta;
  meta.ns = "ns";
  meta.name = "cd";
  meta.uid = "0f8fad5b-d9cb-469f-a165-70867728950e";
  meta.resource_version = "42";
  meta.labels = {{kComputeDomainLabel, "x"}};
  meta.annotations = {{kWakeAnnotation, "1"}};
  meta.finalizers = {kFinalizer, "other/finalizer"};
  meta.owners = {{"v1", "Node", "node-1", "u", true}, {"v1", "Pod", "p", "v", false}};
  const auto read = DecodeMeta({{"metadata", EncodeMeta(meta)}});
  ASSERT_TRUE(read) << read.error().message;
  EXPECT_EQ(EncodeMeta(*read), EncodeMeta(meta));
  EXPECT_TRUE(read->HasFinalizer("other/finalizer"));
  EXPECT_EQ(read->Ref(), (ObjectRef{"ns", "cd", meta.uid}));
}

TEST(Meta, server_fields_are_read_but_not_written) {
  const json object = {{"metadata",
                        {{"name", "n"},
                         {"generation", 3},
                         {"creationTimestamp", "2026-11-30T18:00:00Z"},
                         {"deletionTimestamp", "2026-11-30T18:00:01Z"}}}};
  const auto meta = DecodeMeta(object);
  ASSERT_TRUE(meta);
  EXPECT_EQ(meta->generation, 3);
  EXPECT_EQ(meta->creation_timestamp, "2026-11-30T18:00:00Z");
  EXPECT_TRUE(meta->deleting);
  EXPECT_EQ(EncodeMeta(*meta), json({{"name", "n"}}));
}

TEST(Meta, names_that_could_leave_their_place_in_a_path_are_refused) {
  for (const auto& [field, value] : {std::pair{"name", "../x"}, std::pair{"namespace", "a/b"}, std::pair{"uid", ".."}}) {
    json object = {{"metadata", {{"name", "n"}}}};
    object["metadata"][field] = value;
    const auto meta = DecodeMeta(object);
    ASSERT_FALSE(meta) << field;
    EXPECT_EQ(meta.error().message, std::string("metadata.") + field + ": must be a Kubernetes name, not \"" + value + "\"");
  }
}

TEST(Meta, errors_name_the_field) {
  EXPECT_EQ(DecodeMeta(json::object()).error().message, "metadata.name: must be set");
  for (const auto& [metadata, field] :
       std::vector<std::pair<json, std::string>>{{{{"name", 1}}, "metadata.name"},
                                                 {{{"name", "n"}, {"labels", {{"a", 1}}}}, "metadata.labels.a"},
                                                 {{{"name", "n"}, {"labels", "x"}}, "metadata.labels"},
                                                 {{{"name", "n"}, {"finalizers", {1}}}, "metadata.finalizers"},
                                                 {"text", "metadata"}}) {
    const auto meta = DecodeMeta(json{{"metadata", metadata}});
    ASSERT_FALSE(meta);
    EXPECT_EQ(meta.error().code, ErrorCode::kInvalidArgument);
    EXPECT_EQ(meta.error().message.substr(0, field.size()), field);
  }
}

}  // namespace
}  // namespace cd::api
