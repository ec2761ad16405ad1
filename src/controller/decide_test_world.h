// A small world for the tests of the decisions. Test code only.
#pragma once

#include <functional>

#include "src/controller/decide_domain.h"
#include "src/domain/isolation.h"
#include "src/domain/leases.h"
#include "src/domain/testing.h"

namespace cd::controller {

// Two assigned nodes, red with channel 5; tests spoil it.
struct DomainWorld {
  domain::Clique clique;
  std::vector<api::ImexNode> nodes = {domain::testing::Assigned("a", 0), domain::testing::Assigned("b", 1)};
  api::ImexDomain domain = domain::testing::Domain();
  bool has_domain = true;  // false: it was created, and is to be made from the look
  bool has_object = true;  // false: not even that
  std::vector<domain::Demand> demands;
  domain::KnownDomains known;
  std::optional<Look> looked;

  DomainWorld() {
    clique.name = domain::testing::kClique;
    domain.members = {domain::testing::Member(0, "a"), domain::testing::Member(1, "b")};
    domain.channels = {domain::testing::Lease(5, domain::testing::kRed)};
    domain.next_channel = 6;
    known.cached[domain::testing::kRed] = domain::ViewOf(domain::testing::Red());
  }

  void Know(const std::string& uid, const std::string& name, const std::string& ns = "team") {
    api::ComputeDomain cd = domain::testing::Red();
    cd.meta.uid = uid;
    cd.meta.name = name;
    cd.meta.ns = ns;
    known.cached[uid] = domain::ViewOf(cd);
  }
  void Demand(const std::string& node, const std::string& uid) { demands.push_back({node, "team", "claim-" + node, {uid, {}}}); }
  // A quorum list that shows what the cache shows.
  void LookNow() { looked = Look{domain.meta.resource_version, domain::testing::All(nodes)}; }

  DomainDecision Decide() const {
    DomainSnapshot snapshot;
    snapshot.clique = clique;
    if (has_domain) {
      snapshot.clique.domain = domain;
    } else if (has_object) {
      snapshot.clique.begun = domain::Unmade(domain::NewDomain(clique.name, known.cached, {}));
      snapshot.clique.begun->meta.resource_version = domain.meta.resource_version;
    }
    snapshot.clique.nodes = domain::testing::All(nodes);
    snapshot.demands = demands;
    snapshot.known = known;
    snapshot.looked = looked;
    return DecideDomain(snapshot);
  }
};

}  // namespace cd::controller
