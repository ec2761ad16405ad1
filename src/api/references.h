// Parts that several of our types share in their JSON. For .cc files that read or write it.
#pragma once

#include <vector>

#include "src/api/imex_node.h"
#include "src/base/json_reader.h"

namespace cd::api {

ObjectRef ReadRef(JsonReader r);
nlohmann::json EncodeRef(const ObjectRef& ref);

std::vector<Refusal> ReadRefusals(JsonReader parent);
nlohmann::json EncodeRefusals(const std::vector<Refusal>& refusals);

NodeChannel ReadNodeChannel(JsonReader r);
nlohmann::json EncodeNodeChannel(const NodeChannel& channel);

// Field `allocationMode`; Single when it is missing.
AllocationMode ReadAllocationMode(JsonReader& parent);

ImexConfig ReadImexConfig(JsonReader r);
nlohmann::json EncodeImexConfig(const ImexConfig& config);

}  // namespace cd::api
