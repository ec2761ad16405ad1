// Single values out of JSON of foreign origin: what is missing or of another type is the fallback, nothing throws.
#pragma once

#include <cstdint>
#include <nlohmann/json.hpp>
#include <string>

namespace cd::plugin {

inline const nlohmann::json* FindAt(const nlohmann::json& object, const char* pointer) {
  const nlohmann::json::json_pointer path(pointer);
  return object.is_object() && object.contains(path) ? &object.at(path) : nullptr;
}
inline std::string StringAt(const nlohmann::json& object, const char* pointer) {
  const nlohmann::json* found = FindAt(object, pointer);
  return found != nullptr && found->is_string() ? found->get<std::string>() : "";
}
inline std::int64_t IntegerAt(const nlohmann::json& object, const char* pointer) {
  const nlohmann::json* found = FindAt(object, pointer);
  return found != nullptr && found->is_number_integer() ? found->get<std::int64_t>() : 0;
}

}  // namespace cd::plugin
