// JSON of the checkpoint's parts, shared by the checkpoint and by the claims' marker files.
#pragma once

#include <nlohmann/json_fwd.hpp>

#include "src/plugin/checkpoint.h"

namespace cd::plugin {

nlohmann::json EncodeGrant(const Grant& grant);
nlohmann::json EncodeDevices(const std::vector<ClaimDevice>& devices);

// Read a claim's entry from `{claim, grant?, devices}`; other fields are passed over. The phase is left at kStarted.
Result<ClaimEntry> DecodeClaimParts(const nlohmann::json& object, const std::string& path);

}  // namespace cd::plugin
