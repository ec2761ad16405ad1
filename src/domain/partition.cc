#include "src/domain/partition.h"

#include <algorithm>

namespace cd::domain {

std::string ChoosePartition(const std::string& standing, const std::map<std::string, int>& nodes,
                            const std::set<std::string>& leased, const std::set<std::string>& begun) {
  if (nodes.empty() || nodes.contains(standing)) return standing;
  if (!standing.empty()) return "";
  for (const std::string& clique : leased) {
    if (nodes.contains(clique)) return clique;
  }
  if (!leased.empty()) return "";
  if (!begun.empty()) return *begun.begin();
  const auto most =
      std::max_element(nodes.begin(), nodes.end(), [](const auto& a, const auto& b) { return a.second < b.second; });
  return most->first;
}

PartitionVerdict JudgePartition(const ComputeDomainView& view, const std::string& clique_id) {
  if (view.partition_policy == api::PartitionPolicy::kAny || view.partition == clique_id) return PartitionVerdict::kServe;
  return view.partition.empty() ? PartitionVerdict::kChoose : PartitionVerdict::kOther;
}

}  // namespace cd::domain
