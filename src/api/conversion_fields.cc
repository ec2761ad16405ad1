#include "src/api/conversion_fields.h"

#include <algorithm>
#include <cstdint>
#include <initializer_list>
#include <nlohmann/json.hpp>
#include <string_view>
#include <utility>

#include "src/base/json_reader.h"
#include "src/base/json_text.h"

namespace cd::api {

using nlohmann::json;

namespace {

// An annotation holds 256 KiB at most, with all others of the object.
constexpr std::size_t kLongest = 256 * 1024;

bool IsOneOf(const json& value, std::initializer_list<std::string_view> allowed) {
  return value.is_string() && std::find(allowed.begin(), allowed.end(), value.get_ref<const std::string&>()) != allowed.end();
}

bool IsWithin(const json& value, std::int64_t low, std::int64_t high) {
  if (!value.is_number_integer()) return false;
  const bool wraps = value.is_number_unsigned() && value.get<std::uint64_t>() > static_cast<std::uint64_t>(high);
  return !wraps && value.get<std::int64_t>() >= low && value.get<std::int64_t>() <= high;
}

template <typename Check>
bool EveryMember(const json& object, Check check) {
  if (!object.is_object()) return false;
  for (const auto& [name, value] : object.items()) {
    if (!check(name, value)) return false;
  }
  return true;
}

// The limits are those of the v1beta2 schema.
bool IsGating(const json& value) {
  return EveryMember(value, [](const std::string& name, const json& member) {
    if (name == "minNodes") return IsWithin(member, 1, 10'000);
    if (name == "settleSeconds") return IsWithin(member, 0, 3'600);
    if (name == "timeoutSeconds") return IsWithin(member, 1, 86'400);
    return name == "onTimeout" && IsOneOf(member, {"Fail", "Release"});
  });
}

bool IsImex(const json& value) {
  const bool valid = EveryMember(value, [](const std::string& name, const json& member) {
    if (name == "waitForQuorum") return IsOneOf(member, {"NONE", "RECOVERY", "FULL"});
    if (name == "nodeDisconnectedGraceSeconds") return IsWithin(member, -1, 86'400);
    return name == "logLevel" && IsWithin(member, 0, 4);
  });
  return valid && !value.empty();
}

bool IsField(const std::string& name, const json& value) {
  if (name == "isolationMode") return value.is_null() || IsOneOf(value, {"Channel", "Domain"});
  if (name == "partitionPolicy") return value.is_null() || IsOneOf(value, {"Any", "Single"});
  if (name == "fabricPolicy") return value.is_null() || IsOneOf(value, {"Required", "Optional"});
  if (name == "gating") return value.is_null() || IsGating(value);
  return name == "imex" && (value.is_null() || IsImex(value));
}

// As the API server fills it in v1beta2: else what it reads and what a v1beta1 client writes anew would differ.
void FillGating(json& fields) {
  const auto gating = fields.find("gating");
  if (gating == fields.end() || !gating->is_object()) return;
  if (!gating->contains("settleSeconds")) (*gating)["settleSeconds"] = 5;
  if (!gating->contains("timeoutSeconds")) (*gating)["timeoutSeconds"] = 600;
  if (!gating->contains("onTimeout")) (*gating)["onTimeout"] = "Fail";
}

bool WantsAll(const json& spec) {
  return TextOf(MemberOf(spec, "channel"), "allocationMode") == "All";
}

}  // namespace

json FieldsOfV1Beta1(const json& spec) {
  json fields = json::object();
  fields["isolationMode"] = WantsAll(spec) ? "Domain" : "Channel";
  fields["partitionPolicy"] = "Any";
  fields["fabricPolicy"] = "Optional";
  return fields;
}

std::optional<json> ParseFields(const std::string& text) {
  if (text.empty()) return std::nullopt;
  auto parsed = ParseJson(text, kLongest);
  if (!parsed || !parsed->is_object()) return std::nullopt;
  return *std::move(parsed);
}

std::optional<json> ParseCarried(const std::string& text, const json& spec) {
  auto carried = ParseFields(text);
  if (!carried || !EveryMember(*carried, IsField)) return std::nullopt;
  json fields = FieldsOfV1Beta1(spec);
  Apply(*carried, fields);
  const bool exclusive = TextOf(fields, "isolationMode") == "Domain";
  if ((WantsAll(spec) || fields.contains("imex")) && !exclusive) return std::nullopt;
  return carried;
}

void Apply(const json& carried, json& fields) {
  for (const auto& [name, value] : carried.items()) {
    if (value.is_null()) {
      fields.erase(name);
    } else {
      fields[name] = value;
    }
  }
  FillGating(fields);
}

std::string DifferenceOf(const json& meant, const json& fields) {
  json difference = json::object();
  for (const auto& [name, value] : fields.items()) {
    if (!meant.contains(name) || meant[name] != value) difference[name] = value;
  }
  for (const auto& [name, value] : meant.items()) {
    if (!fields.contains(name)) difference[name] = nullptr;
  }
  return difference.empty() ? "" : difference.dump(-1, ' ', false, json::error_handler_t::replace);
}

}  // namespace cd::api
