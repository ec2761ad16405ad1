// Which ComputeDomains a node without fabric serves without a channel (fabricPolicy Optional). Pure.
//
// An exemption takes nothing from anybody, so unlike a channel it needs no protocol: it goes when its ComputeDomain is gone or
// the node has a fabric after all.
#pragma once

#include <string>
#include <vector>

#include "src/domain/demand.h"

namespace cd::domain {

struct ExemptionDecision {
  std::vector<api::Exemption> exemptions;  // what IMEXNode.spec should say; sorted by UID
  std::vector<api::ObjectRef> verify;      // owners to be read live before they get one
};

// True when `node` may run pods without a channel: positively without fabric, and out of every IMEX domain (so it holds no
// channel).
bool MayExempt(const api::ImexNode& node, bool member);
const api::Exemption* FindExemption(const api::ImexNode& node, const std::string& compute_domain_uid);

// `member`: the node has a slot in an IMEXDomain. `demands`: claims in use on the node.
ExemptionDecision DecideExemptions(const api::ImexNode& node, bool member, const std::vector<Demand>& demands,
                                   const KnownDomains& known);

}  // namespace cd::domain
