#include "src/controller/work_key.h"

#include <gtest/gtest.h>

namespace cd::controller {
namespace {

TEST(WorkKey, each_kind_has_its_own_text_and_comes_back_from_it) {
  const WorkKey keys[] = {{WorkKind::kImexDomain, {"", "3f0e6c1a-0000-4000-8000-000000000001.1"}},
                          {WorkKind::kNode, {"", "node-1.example"}},
                          {WorkKind::kComputeDomain, {"team", "red"}}};
  for (const WorkKey& key : keys) EXPECT_EQ(ParseWorkKey(Format(key)), key) << Format(key);
}

TEST(WorkKey, same_name_of_another_kind_is_another_key) {
  EXPECT_NE(ImexDomainKey("a"), NodeKey("a"));
  EXPECT_NE(ComputeDomainKey({"a", "b"}), ComputeDomainKey({"b", "a"}));
}

}  // namespace
}  // namespace cd::controller
