#include "src/base/json_text.h"

#include <nlohmann/json.hpp>

namespace cd {

using nlohmann::json;

const json& MemberOf(const json& object, const char* name) {
  static const json null;
  if (!object.is_object()) return null;
  const auto it = object.find(name);
  return it == object.end() ? null : *it;
}

const std::string& TextOf(const json& object, const char* name) {
  static const std::string empty;
  const json& member = MemberOf(object, name);
  return member.is_string() ? member.get_ref<const std::string&>() : empty;
}

const json& ArrayOf(const json& object, const char* name) {
  static const json empty = json::array();
  const json& member = MemberOf(object, name);
  return member.is_array() ? member : empty;
}

}  // namespace cd
