#include "src/domain/members.h"

#include <algorithm>
#include <charconv>
#include <optional>

#include "src/domain/imex_options.h"

namespace cd::domain {

using api::DomainMember;
using api::FabricState;
using api::ImexDomain;
using api::ImexNode;

namespace {

bool IsExclusive(const Clique& clique) {
  return !api::IdentityOf(clique.name).owner_uid.empty();
}

// The node's GPUs are elsewhere now, or its claims belong in another domain of the clique; and nothing of this domain is held any
// more. A fabric that is forming or degraded is still this domain's: it may heal, and workloads may run on.
bool WantsToLeave(const Clique& clique, const ImexNode& node) {
  if (!node.reported || HoldsAnyHere(clique, node)) return false;
  // To the shared domain it goes back whatever its fabric is like; into an exclusive one only a healthy node can enter.
  const bool may = IsExclusive(clique) || node.status.fabric == FabricState::kReady;
  const bool wanted_elsewhere = ReportsClique(clique, node) && clique.wanted_elsewhere.contains(node.meta.name);
  return (wanted_elsewhere && may) ||
         api::IsElsewhere(node.status.fabric, node.status.clique_ids, api::IdentityOf(clique.name).clique_id);
}

// Evidence that the node's daemon in this domain has ended and cannot come back: it has no assignment here, and its plugin, which
// has reported that it acts on the assignment, reports that it does no more.
bool HasLeft(const Clique& clique, const ImexNode& node) {
  if (!WantsToLeave(clique, node)) return false;
  if (node.domain && node.domain->name == clique.name) return false;
  return !DaemonIsHere(clique, node);
}

bool MayEnter(const Clique& clique, const ImexNode& node) {
  return BelongsIn(clique, node) && node.status.fabric == FabricState::kReady && !node.meta.deleting &&
         (!node.domain || node.domain->name == clique.name) && !clique.members_elsewhere.contains(node.meta.name) &&
         !HoldsUngranted(clique, node) && !UnknownToDriver(clique.domain->imex_config, node.status.driver_version);
}

// Never used before freed, freed long ago before freed lately.
std::optional<int> TakeSlot(const ImexDomain& domain, const std::vector<DomainMember>& members, std::vector<int>& freed) {
  for (int index = 0; index < domain.node_slots; ++index) {
    const bool used = std::any_of(members.begin(), members.end(), [&](const DomainMember& m) { return m.index == index; });
    if (!used && std::find(freed.begin(), freed.end(), index) == freed.end()) return index;
  }
  if (freed.empty()) return std::nullopt;
  const int index = freed.front();
  freed.erase(freed.begin());
  return index;
}

void UpdateFromReport(DomainMember& member, const ImexNode& node) {
  if (!node.reported) return;
  member.address = node.status.daemon.address;
  member.boot_id = node.status.boot_id;
}

void KeepOrRelease(const Clique& clique, const std::set<std::string>& gone, const Nodes* looked, MembersDecision& out) {
  for (DomainMember member : clique.domain->members) {
    const ImexNode* node = FindNode(clique.nodes, member.node);
    const bool seems_left = node != nullptr ? HasLeft(clique, *node) : gone.contains(member.node);
    bool left = false;
    if (seems_left && looked == nullptr) out.wants_look = true;
    if (seems_left && looked != nullptr) {
      const ImexNode* fresh = FindNode(*looked, member.node);
      left = fresh != nullptr ? HasLeft(clique, *fresh) : gone.contains(member.node);
    }
    if (left) {
      out.freed.push_back(member.index);
      out.left.push_back(member.node);
      continue;
    }
    if (node != nullptr) UpdateFromReport(member, *node);
    out.members.push_back(std::move(member));
  }
}

}  // namespace

MembersDecision DecideMembers(const Clique& clique, const std::set<std::string>& gone, const Nodes* looked) {
  const ImexDomain& domain = *clique.domain;
  MembersDecision out;
  const auto annotation = domain.meta.annotations.find(kFreedSlotsAnnotation);
  if (annotation != domain.meta.annotations.end()) out.freed = ParseSlots(annotation->second, domain.node_slots);
  std::erase_if(out.freed, [&](int index) {
    return std::any_of(domain.members.begin(), domain.members.end(), [&](const DomainMember& m) { return m.index == index; });
  });
  KeepOrRelease(clique, gone, looked, out);
  for (const NodePtr& node : clique.nodes) {
    if (FindMember(domain, node->meta.name) != nullptr || !MayEnter(clique, *node)) continue;
    // An old view may miss what the node holds of another domain. It does no harm in an assignment, which carries the report's
    // version; but a slot would stay taken for as long as the node cannot be assigned.
    const ImexNode* const fresh = looked == nullptr ? node.get() : FindNode(*looked, node->meta.name);
    if (fresh == nullptr || !MayEnter(clique, *fresh)) continue;
    const auto slot = TakeSlot(domain, out.members, out.freed);
    if (!slot) {
      out.without_slot.push_back(node->meta.name);
      continue;
    }
    DomainMember member{*slot, node->meta.name, "", ""};
    UpdateFromReport(member, *node);
    out.members.push_back(std::move(member));
    out.admitted.push_back(node->meta.name);
  }
  std::sort(out.members.begin(), out.members.end(),
            [](const DomainMember& a, const DomainMember& b) { return a.index < b.index; });
  return out;
}

std::optional<api::DomainAssignment> DesiredAssignment(const Clique& clique, const ImexNode& node) {
  if (!clique.domain) return std::nullopt;
  const DomainMember* member = FindMember(*clique.domain, node.meta.name);
  if (member == nullptr) {
    // Another leader, whose view was older, gave the place and took it again before the node entered. What the node has announced
    // since may be granted here: the assignment stays, as a member's does, until it is a member again or has withdrawn it.
    const bool here = node.domain && node.domain->name == clique.name;
    return here && HoldsGranted(clique, node) ? node.domain : std::nullopt;
  }
  api::DomainAssignment assignment{clique.name, clique.domain->meta.uid, member->index};
  if (WantsToLeave(clique, node)) {
    // Only a report that has told of the assignment can later tell that it was given up, see HasLeft.
    const bool here = node.domain && node.domain->name == clique.name;
    const bool told = here && node.status.daemon.domain_uid == node.domain->uid;
    return !here || told ? std::nullopt : std::optional(assignment);
  }
  // A node that is already in is not thrown out for an announcement its own check is about to withdraw.
  if (node.domain != assignment && (!node.reported || HoldsUngranted(clique, node))) return std::nullopt;
  return assignment;
}

std::string FormatSlots(const std::vector<int>& slots) {
  std::string out;
  for (int slot : slots) out.append(out.empty() ? "" : ",").append(std::to_string(slot));
  return out;
}

std::vector<int> ParseSlots(const std::string& text, int node_slots) {
  std::vector<int> out;
  const char* p = text.data();
  const char* const end = p + text.size();
  while (p < end) {
    int slot = -1;
    const auto [next, error] = std::from_chars(p, end, slot);
    if (error == std::errc() && slot >= 0 && slot < node_slots && std::find(out.begin(), out.end(), slot) == out.end()) {
      out.push_back(slot);
    }
    p = std::find(next, end, ',');
    if (p < end) ++p;
  }
  return out;
}

}  // namespace cd::domain
