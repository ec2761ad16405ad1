// Which ComputeDomain owns which channel of an IMEX domain (rule R1). Grant, drain, then look, then free; docs/protocol.md has
// the argument why a number is never given to a second owner while processes of the first may live.
#pragma once

#include <optional>
#include <set>
#include <string>
#include <vector>

#include "src/domain/clique.h"

namespace cd::domain {

inline constexpr int kFirstChannel = 1;    // channel 0 is what software outside this driver uses by default
inline constexpr int kLastChannel = 2047;  // the kernel driver makes 2048

// Next-fit from domain.next_channel, around the end; never a number with a lease of any state or one of `listed`.
std::optional<int> NextFreeChannel(const api::ImexDomain& domain, const std::set<int>& listed);

// A number without lease that nodes report for that ComputeDomain, and for no other: its lease was lost, by an edit say. With
// another number its later pods would be parted from those that run.
std::optional<int> HeldWithoutLease(const Clique& clique, const std::string& compute_domain_uid);
// Adds an Active lease and moves next_channel on. The caller has made sure that `owner` has no lease here.
void Grant(api::ImexDomain& domain, const api::ObjectRef& owner, int channel);
// Active → Draining; true when it changed something.
bool Drain(api::ImexDomain& domain, const std::string& compute_domain_uid);

// Draining → Active for an owner that lives, and came back before its number was free. The number never changed hands, so nobody
// who holds it is wronged; a freeing update decided from the Draining version is refused. False: it has no lease, or an Active
// one.
bool Revive(api::ImexDomain& domain, const std::string& compute_domain_uid);

// True when a Draining lease seems free by clique.nodes, so that a quorum list is worth its price.
bool WorthLooking(const Clique& clique);
// Draining channels that no node of the quorum list may hold. `looked` must have been read after the version of clique.domain was
// written, and the freeing update must carry that version as its precondition.
std::vector<int> FreeableChannels(const Clique& clique, const Nodes& looked);
void FreeChannels(api::ImexDomain& domain, const std::vector<int>& channels);

// What is created where there is no domain: it keeps other leaders from making another one, and gives nothing to anybody.
// `empty`: see NewDomain.
api::ImexDomain Unmade(api::ImexDomain empty);
// The same object made: of a domain that was lost, or the first one of a clique. `looked` must have been read after `unmade` was
// created: one that stood in between, of another leader, may have given slots and channels before it was lost. Members as daemons
// that run and then assignments say, leases as all nodes' reports do. Leases are Active; the caller drains those whose
// ComputeDomain is gone before it writes. `known` resolves UIDs to names.
api::ImexDomain Rebuild(const api::ImexDomain& unmade, const Clique& clique, const Nodes& looked,
                        const std::vector<api::ObjectRef>& known);

}  // namespace cd::domain
