// What the administrator chose for the cluster, from flags.
#pragma once

#include "src/api/claim_template.h"

namespace cd::controller {

struct ClusterSettings {
  // What the plugins publish. Slots must be the same here and there: a claim has a node for itself if it has as many.
  api::NodeDevices devices;
  // The server may turn out not to know devices that claims share: the plugins then publish plain ones.
  bool devices_may_be_plain = true;
  // Of shared IMEX domains, and of exclusive ones where their ComputeDomain says nothing.
  api::ImexConfig imex;
};

}  // namespace cd::controller
