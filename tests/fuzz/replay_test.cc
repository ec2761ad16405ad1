// Feeds every kept input to its parser, whole and cut short at every byte.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <filesystem>
#include <fstream>
#include <iterator>
#include <ostream>
#include <set>

#include "tests/fuzz/fuzz.h"

namespace cd::fuzz {

// GoogleTest would print its bytes.
void PrintTo(const Parser& parser, std::ostream* out) {
  *out << parser.name;
}

namespace {

namespace fs = std::filesystem;

// Longer inputs are cut at this many places only.
constexpr std::size_t kCuts = 400;

std::vector<std::string> NamesIn(const fs::path& folder) {
  std::vector<std::string> names;
  for (const fs::directory_entry& entry : fs::directory_iterator(folder)) names.push_back(entry.path().filename().string());
  return names;
}

class Replay : public ::testing::TestWithParam<Parser> {};

TEST_P(Replay, holds_for_every_kept_input_and_its_beginnings) {
  Silence();
  const fs::path folder = fs::path(CD_FUZZ_CORPUS) / GetParam().name;
  ASSERT_TRUE(fs::is_directory(folder)) << folder;
  const auto names = NamesIn(folder);
  ASSERT_THAT(names, ::testing::Not(::testing::IsEmpty()));
  for (const std::string& name : names) {
    std::ifstream file(folder / name, std::ios::binary);
    const std::string input{std::istreambuf_iterator<char>(file), {}};
    const std::size_t step = input.size() / kCuts + 1;
    for (std::size_t size = 0; size < input.size(); size += step) GetParam().feed(std::string_view(input).substr(0, size));
    GetParam().feed(input);
  }
}

INSTANTIATE_TEST_SUITE_P(Parsers, Replay, ::testing::ValuesIn(Parsers()),
                         [](const auto& info) { return std::string(info.param.name); });

TEST(Corpus, has_a_folder_for_every_parser_and_no_other) {
  std::set<std::string> parsers{"dra_request"};  // missing from builds without gRPC
  for (const Parser& parser : Parsers()) parsers.emplace(parser.name);
  EXPECT_THAT(NamesIn(CD_FUZZ_CORPUS), ::testing::UnorderedElementsAreArray(parsers));
}

}  // namespace
}  // namespace cd::fuzz
