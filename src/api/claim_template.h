// The ResourceClaimTemplate through which pods join a ComputeDomain.
#pragma once

#include <nlohmann/json_fwd.hpp>

#include "src/api/compute_domain.h"

namespace cd::api {

// One request `channel` for one device of our channel class, with the ComputeDomain's UID as opaque config, owned by the
// ComputeDomain. Generated claims carry our labels and a copy of the ComputeDomain's own, which some schedulers select by.
nlohmann::json EncodeClaimTemplate(const ComputeDomain& cd);

}  // namespace cd::api
