// Who sits in which slot of a clique's IMEX domain (rule R3: an index names one node, does not change while its daemon runs, and
// is reused, least recently used first, only on evidence that the old daemon is gone).
#pragma once

#include <set>
#include <string>
#include <vector>

#include "src/domain/clique.h"

namespace cd::domain {

// On the IMEXDomain: indexes whose node has left, the oldest first, comma separated. Indexes never used precede them all.
inline constexpr char kFreedSlotsAnnotation[] = "resource.nvidia.com/freed-slots";

struct MembersDecision {
  std::vector<api::DomainMember> members;  // sorted by index
  std::vector<int> freed;                  // new value of the annotation
  std::vector<std::string> without_slot;   // nodes that would be members if a slot were free
  std::vector<std::string> admitted;
  std::vector<std::string> left;
  // A member would leave by the cached view: ask for a quorum list and decide again.
  bool wants_look = false;
};

// `clique.domain` must be present. `gone`: members whose IMEXNode is absent and whose Node was absent by live reads for long
// enough. `looked`: a quorum list of all IMEXNodes read after clique.domain's version, or nullptr. Nobody leaves without one.
MembersDecision DecideMembers(const Clique& clique, const std::set<std::string>& gone, const Nodes* looked);

// What IMEXNode.spec.domain should say; nullopt: nothing.
std::optional<api::DomainAssignment> DesiredAssignment(const Clique& clique, const api::ImexNode& node);

std::string FormatSlots(const std::vector<int>& slots);
// Ignores what is no number of a slot, so an edited annotation costs the order, nothing else.
std::vector<int> ParseSlots(const std::string& text, int node_slots);

}  // namespace cd::domain
