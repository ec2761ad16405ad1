// The status of a ComputeDomain in its two versions. Pure; in place; nothing where there is no status.
#pragma once

#include <nlohmann/json_fwd.hpp>

namespace cd::api {

// After the spec, whose numNodes decides on Ready.
void StatusDown(nlohmann::json& object);
void StatusUp(nlohmann::json& object);

}  // namespace cd::api
