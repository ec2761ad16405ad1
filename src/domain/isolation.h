// Which IMEX domain a node belongs in (rule R5): the one its clique shares, or one that a ComputeDomain with isolationMode Domain
// has for itself, with the node. Pure.
//
// A node is moved by what its claims in use ask for, and only while it holds no channel of the domain it is in: nobody's running
// work is touched. src/domain/members.h has who leaves and enters when.
#pragma once

#include <map>
#include <optional>
#include <string>
#include <vector>

#include "src/domain/demand.h"

namespace cd::domain {

// Name of the IMEXDomain that serves the ComputeDomain in a clique.
std::string DomainNameFor(const ComputeDomainView& cd, const std::string& clique_id);

// The IMEXDomain in which a node of the clique belongs, by the claims in use on it. `current`: the one it is in, or is told to be
// in; it stays there as long as a claim asks for it, whoever else comes: an allocator that ignores capacities must not cost the
// first one its node. Nobody moves a node of another partition than the one its ComputeDomain is bound to (partitionPolicy
// Single).
std::string WantedDomain(const std::string& clique_id, const std::string& current, const api::ImexNode& node,
                         const std::vector<Demand>& demands, const KnownDomains& known);

// An empty IMEXDomain of that name. `known` resolves the owner of an exclusive one and its wishes; one that is not known any more
// has none. `cluster`: the settings where no ComputeDomain has a say.
api::ImexDomain NewDomain(const std::string& name, const std::map<std::string, ComputeDomainView>& known,
                          const api::ImexConfig& cluster);

// Why a claim in order, which asks for another IMEXDomain than the one `domain` that its node serves, gets no channel there.
// nullopt: the node is on its way to the other one, or waits until the last process that holds a channel here has ended, or
// until the ComputeDomain's partition is chosen.
std::optional<api::Refusal> RefuseInDomain(const Demand& demand, const ComputeDomainView& view, const api::ImexNode& node,
                                           const api::ImexDomain& domain, bool node_is_wanted_here);
// Whatever domain the node is in, or none: the claim does not ask for the whole node, which its ComputeDomain needs, or the
// node's driver does not know what the ComputeDomain wishes of nvidia-imex, which runs where there is a fabric.
std::optional<api::Refusal> RefuseExclusive(const Demand& demand, const ComputeDomainView& view, const api::ImexNode& node);

// The cluster's own options keep the node out of the shared domain. `unknown`: see UnknownToDriver.
api::Refusal RefuseOldDriver(const Demand& demand, const api::ImexNode& node, const std::string& unknown);

}  // namespace cd::domain
