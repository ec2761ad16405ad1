// Single values out of JSON of foreign origin: nothing here throws, what is missing or of another type reads as empty.
#pragma once

#include <nlohmann/json_fwd.hpp>
#include <string>

namespace cd {

// The references live as long as `object`, or for ever when they are of something empty.
const nlohmann::json& MemberOf(const nlohmann::json& object, const char* name);  // else null
const std::string& TextOf(const nlohmann::json& object, const char* name);
const nlohmann::json& ArrayOf(const nlohmann::json& object, const char* name);

}  // namespace cd
