#include "src/base/text.h"

#include <gtest/gtest.h>

namespace cd {
namespace {

TEST(CutText, never_inside_a_character) {
  EXPECT_EQ(CutText("abc", 3), "abc");
  EXPECT_EQ(CutText("abcd", 3), "abc");
  EXPECT_EQ(CutText("aéb", 2), "a");
  EXPECT_EQ(CutText("aéb", 3), "aé");
  EXPECT_EQ(CutText("€", 2), "");
}

TEST(Printable, is_one_line_of_whole_valid_characters) {
  EXPECT_EQ(Printable("a\tb\r\n\x1b[0m\x7f", 100), "a b   [0m ");
  EXPECT_EQ(Printable("\xff|\xc0\x80|\xed\xa0\x80|\xe2\x82", 100), "\ufffd|\ufffd\ufffd|\ufffd\ufffd\ufffd|\ufffd\ufffd");
  EXPECT_EQ(Printable("Größe 🙂", 100), "Größe 🙂");
  EXPECT_EQ(Printable("Größe 🙂", 11), "Größe ");
  EXPECT_EQ(Printable("\xff", 2), "");
}

TEST(StableHash, is_fnv_1a_of_64_bits) {
  EXPECT_EQ(StableHash(""), 0xcbf29ce484222325);
  EXPECT_EQ(StableHash("foobar"), 0x85944171f73967e8);
}

TEST(IsIpAddress, both_families_and_nothing_around_them) {
  for (const char* good : {"10.0.0.1", "::1", "fd00::a1", "::ffff:10.0.0.1"}) EXPECT_TRUE(IsIpAddress(good)) << good;
  for (const char* bad : {"", "10.0.0", "010.0.0.1 ", "[::1]", "fe80::1%eth0", "10.0.0.1/8", "node-1"}) {
    EXPECT_FALSE(IsIpAddress(bad)) << bad;
  }
}

}  // namespace
}  // namespace cd
