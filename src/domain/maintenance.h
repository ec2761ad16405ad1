// When a node's IMEX daemon may be replaced by one of another revision (rule R8). Pure.
//
// A daemon that ends takes the imported memory of its node's pods with it. So nobody replaces one under them: the controller asks
// by a token in IMEXNode.spec.maintenance that names the daemon's pod, the plugin answers in status once no channel is held, and
// lets no Prepare complete from then on. Only then is that pod deleted; its DaemonSet makes the new one.
//
// A request to delete may be carried out late, or be another leader's. So a token is never taken back: it ends when another pod
// is the node's daemon, and the deletion of the former one can do no harm any more. The plugin holds to its word likewise. Until
// its word is given a token withholds nothing.
#pragma once

#include <string>

#include "src/domain/clique.h"

namespace cd::domain {

struct MaintenanceInput {
  const api::ImexNode& node;
  std::string revision;   // of the daemons that should run; empty: it does not matter
  bool in_use = false;    // a claim is in use on the node, so a Prepare may be on its way
  bool may_begin = true;  // not too many of its clique are under maintenance
};

struct MaintenanceDecision {
  std::string token;            // IMEXNode.spec.maintenance as it should be
  std::string delete_pod = {};  // UID of the daemon's pod that is to be deleted from the node; empty: none
  bool waits = false;           // only for its turn: may_begin
};

// A token that somebody else has set stays.
MaintenanceDecision DecideMaintenance(const MaintenanceInput& input);

// True while fewer than a tenth of the clique's nodes, or none, are without a daemon of their pods' because it is replaced. A
// revision that does not become READY stops there.
bool MayBeginMaintenance(const Clique& clique);

}  // namespace cd::domain
