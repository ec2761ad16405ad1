// What IMEXNode.spec of one node should say, and which of its pods need a push. Pure.
#pragma once

#include <optional>
#include <set>
#include <string>
#include <vector>

#include "src/controller/decide_domain.h"
#include "src/domain/exemptions.h"
#include "src/domain/wake.h"

namespace cd::controller {

// An allocated and reserved claim on the node and how far its pods are.
struct WaitingClaim {
  domain::Demand demand;
  std::string uid;                   // of the claim
  std::vector<api::ObjectRef> pods;  // that reserve it
  domain::WakeState state = domain::WakeState::kWaiting;
  bool old = false;                  // allocated before this process began to look
  std::optional<std::string> calls;  // CallsOf the node when the state was last stepped
  Duration age{0};                   // since it was first seen allocated
};

struct NodeSnapshot {
  domain::NodePtr node;
  // The clique it is a member of, else the one it is assigned to, else the one it reports; nullopt: none.
  std::optional<domain::Clique> clique;
  std::vector<WaitingClaim> claims;
  domain::KnownDomains known;
  std::string daemon_revision;  // see domain::MaintenanceInput
};

struct WakeRecord {
  std::string claim_uid;
  domain::WakeState state = domain::WakeState::kWaiting;
  std::string calls;
  bool operator==(const WakeRecord&) const = default;
};

// Changes when a call of the kubelet for that claim may have been lost: its plugin was away, or says that it lost one.
std::string CallsOf(const api::ImexNode& node, const std::string& claim_uid);

struct NodeDecision {
  std::set<LookUp> look_up;            // read first, then decide again
  std::vector<api::ObjectRef> verify;  // the same, one live GET each
  bool write = false;                  // domain, refusals, exemptions or maintenance differ from the node's spec
  std::optional<api::DomainAssignment> domain;
  std::vector<api::Refusal> refusals;  // `node` is empty
  std::vector<api::Exemption> exemptions;
  std::string maintenance;
  std::string delete_pod;                     // UID of the IMEX daemon's pod that is to be deleted; empty: none
  std::vector<WaitingClaim> without_channel;  // their pods are to be told that they run without a channel
  std::vector<api::ObjectRef> wake;           // pods
  std::vector<WakeRecord> states;             // to be remembered
  std::optional<Duration> again;              // decide again after that, if nothing happens before

  bool NeedsReads() const { return !look_up.empty() || !verify.empty(); }
};

NodeDecision DecideNode(const NodeSnapshot& snapshot);

}  // namespace cd::controller
