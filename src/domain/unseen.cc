#include "src/domain/unseen.h"

#include <algorithm>
#include <vector>

#include "src/domain/cd_status.h"

namespace cd::domain {

namespace {

struct Ready {
  int index;
  const api::ImexNode* node;

  bool Sees(const Ready& other) const {
    const auto& connected = node->status.daemon.connected;
    return std::binary_search(connected.begin(), connected.end(), other.index);
  }
};

std::vector<Ready> ReadyMembers(const Clique& clique) {
  std::vector<Ready> out;
  for (const api::DomainMember& member : clique.domain->members) {
    const api::ImexNode* node = FindNode(clique.nodes, member.node);
    if (node != nullptr && IsReadyIn(*clique.domain, *node)) out.push_back({member.index, node});
  }
  return out;
}

// The suspect does not vouch for those who are to judge it.
bool IsWitness(const Ready& node, const Ready& suspect, const std::vector<Ready>& ready) {
  return std::any_of(ready.begin(), ready.end(), [&](const Ready& other) {
    return other.index != node.index && other.index != suspect.index && node.Sees(other);
  });
}

bool IsUnseen(const Ready& suspect, const std::vector<Ready>& ready) {
  std::size_t witnesses = 0;
  std::size_t blind = 0;
  for (const Ready& other : ready) {
    if (other.index == suspect.index || !IsWitness(other, suspect, ready)) continue;
    ++witnesses;
    if (!other.Sees(suspect)) ++blind;
  }
  return blind >= 2 && 3 * blind >= 2 * witnesses;
}

}  // namespace

std::set<std::string> UnseenMembers(const Clique& clique) {
  if (!clique.domain) return {};
  const std::vector<Ready> ready = ReadyMembers(clique);
  std::set<std::string> out;
  for (const api::DomainMember& member : clique.domain->members) {
    const auto suspect = std::find_if(ready.begin(), ready.end(), [&](const Ready& node) { return node.index == member.index; });
    // Of one that is not READY the others say nothing: what was said of it stands.
    if (suspect == ready.end() ? member.unseen : IsUnseen(*suspect, ready)) out.insert(member.node);
  }
  return out;
}

}  // namespace cd::domain
