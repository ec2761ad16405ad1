// What this node's Prepares wait for, as seen in the local copies of the API's objects and in the daemon's status; and the
// judgement of it for one claim. Pure.
#pragma once

#include <memory>
#include <optional>
#include <string>
#include <variant>
#include <vector>

#include "src/api/imex_domain.h"
#include "src/api/imex_node.h"
#include "src/api/resource_claim.h"
#include "src/plugin/checkpoint.h"

namespace cd::plugin {

struct NodeView {
  std::string node;
  std::shared_ptr<const api::ImexNode> imex_node;  // null: not there, or not seen yet
  std::shared_ptr<const api::ImexDomain> domain;   // the one imex_node->domain names, or named last; null: not seen yet
  api::NodeDaemon daemon;                          // from status.json
  api::FabricState fabric = api::FabricState::kNone;
  std::vector<std::string> clique_ids;
  std::string fabric_message;
  bool no_fabric = false;  // positively; see api::NoFabric
};

// A claim's wish, validated.
struct ChannelRequest {
  api::ObjectRef claim;
  api::ChannelConfig config;
  int slots = 1;            // of the node that it takes
  bool whole_node = false;  // these are all
};

// Everything is in place: this channel, at once.
struct Granted {
  Grant grant;
};
// The lease is there, but not everything else; `missing` is what to tell a person.
struct AwaitsNode {
  Grant grant;
  std::string missing;
};
// No lease yet. `refusal` is the controller's reason, if it gave one.
struct AwaitsLease {
  std::string missing;
  std::optional<api::Refusal> refusal;
  bool held = false;  // the lease is there, but gating or the node holds the pod back: nothing is begun, and why is known
};
// Waiting cannot help.
struct Denied {
  Error error;
};
using Judgement = std::variant<Granted, AwaitsNode, AwaitsLease, Denied>;

Judgement Judge(const NodeView& view, const ChannelRequest& request);

// The check after the announcement: `domain` is a quorum read. Still Active for the same ComputeDomain, number and life of the
// domain.
Status StillGranted(const api::ImexDomain& domain, const Grant& grant);

}  // namespace cd::plugin
