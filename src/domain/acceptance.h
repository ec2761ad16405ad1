// What this version of the driver can serve. A value it cannot is named, with what to do, never ignored.
#pragma once

#include <optional>
#include <string>

#include "src/api/compute_domain.h"

namespace cd::domain {

// nullopt: the spec can be served. Else one sentence for each refused field: field, value, remedy.
std::optional<std::string> WhyNotAccepted(const api::ComputeDomain& cd);

}  // namespace cd::domain
