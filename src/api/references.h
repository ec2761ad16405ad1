// Parts that several of our types share in their JSON. For the .cc files of src/api.
#pragma once

#include <vector>

#include "src/api/imex_domain.h"
#include "src/api/json_reader.h"

namespace cd::api {

ObjectRef ReadRef(JsonReader r);
nlohmann::json EncodeRef(const ObjectRef& ref);

std::vector<Refusal> ReadRefusals(JsonReader parent);
nlohmann::json EncodeRefusals(const std::vector<Refusal>& refusals);

ImexConfig ReadImexConfig(JsonReader r);
nlohmann::json EncodeImexConfig(const ImexConfig& config);

}  // namespace cd::api
