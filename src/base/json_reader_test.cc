#include "src/base/json_reader.h"

#include <gtest/gtest.h>

namespace cd {
namespace {

using nlohmann::json;

class JsonReaderTest : public ::testing::Test {
 protected:
  JsonReader Read(const char* text) {
    object_ = json::parse(text);
    error_.reset();
    return {&object_, "spec", error_};
  }
  std::string Message() const { return error_ ? error_->message : ""; }

  json object_;
  std::optional<Error> error_;
};

TEST_F(JsonReaderTest, missing_and_null_fields_are_the_fallback) {
  JsonReader r = Read(R"({"a": null})");
  EXPECT_EQ(r.String("a"), "");
  EXPECT_EQ(r.IntWithin("a", 1, 2, 7), 7);
  EXPECT_EQ(r.PlainText("b"), "");
  EXPECT_TRUE(r.Children("c", 0).empty());
  EXPECT_EQ(Message(), "");
}

TEST_F(JsonReaderTest, first_error_names_field_rule_and_value_and_silences_the_others) {
  JsonReader r = Read(R"({"a": [{"n": "x"}, {"n": 5}], "b": true})");
  for (JsonReader& item : r.Children("a")) item.String("n");
  EXPECT_EQ(r.Int("b"), 0);
  EXPECT_EQ(Message(), "spec.a[1].n: must be a string, not 5");
}

TEST_F(JsonReaderTest, numbers_stay_within_their_limits) {
  EXPECT_EQ(Read(R"({"a": 4})").IntWithin("a", 1, 4, 0), 4);
  for (const char* text : {R"({"a": 5})", R"({"a": -1})", R"({"a": 1.5})", R"({"a": 18446744073709551615})", R"({"a": "1"})"}) {
    EXPECT_EQ(Read(text).IntWithin("a", 0, 4, 3), 3) << text;
    EXPECT_TRUE(Message().starts_with("spec.a: must be a whole number from 0 to 4, not ")) << Message();
  }
}

TEST_F(JsonReaderTest, plain_text_is_short_and_has_no_control_characters) {
  EXPECT_EQ(Read(R"({"a": "é b"})").PlainText("a", 4), "é b");
  for (const char* text : {R"({"a": "12345"})", R"({"a": "x\ny"})", R"({"a": "\u0000"})", R"({"a": "\u007f"})"}) {
    EXPECT_EQ(Read(text).PlainText("a", 4), "") << text;
    EXPECT_TRUE(Message().starts_with("spec.a: must be text of at most 4 bytes without control characters")) << Message();
  }
}

TEST_F(JsonReaderTest, longer_lists_than_allowed_are_not_read) {
  EXPECT_EQ(Read(R"({"a": [{}, {}]})").Children("a", 2).size(), 2u);
  EXPECT_TRUE(Read(R"({"a": [{}, {}, {}]})").Children("a", 2).empty());
  EXPECT_TRUE(Message().starts_with("spec.a: must be a list of at most 2 elements")) << Message();
}

TEST_F(JsonReaderTest, what_the_caller_rejects_is_an_error_like_others) {
  JsonReader r = Read(R"({"a": "x"})");
  r.Reject("a", "must be y");
  r.Reject("b", "must be z");
  EXPECT_EQ(Message(), "spec.a: must be y, not \"x\"");
}

TEST(ParseJson, has_limits_of_size_and_depth) {
  EXPECT_TRUE(ParseJson("[[1]]", 5));
  EXPECT_FALSE(ParseJson("[[1]]", 4));
  EXPECT_FALSE(ParseJson("[[1]", 9));
  EXPECT_TRUE(ParseJson(std::string(17, '[') + std::string(17, ']'), 99));
  EXPECT_FALSE(ParseJson(std::string(18, '[') + std::string(18, ']'), 99));
}

}  // namespace
}  // namespace cd
