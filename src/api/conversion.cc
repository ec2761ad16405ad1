#include "src/api/conversion.h"

#include <cstdint>
#include <nlohmann/json.hpp>
#include <optional>
#include <string>
#include <utility>

#include "src/api/conversion_fields.h"
#include "src/api/conversion_status.h"
#include "src/base/json_text.h"

namespace cd::api {

using nlohmann::json;

namespace {

// What a v1beta2 object says of its v1beta1 view.
struct Kept {
  std::int64_t num_nodes = 0;
  std::string text;  // of the annotation a v1beta1 user wrote, where we would have written it otherwise

  std::string Text() const {
    json out = json::object();
    if (num_nodes != 0) out["numNodes"] = num_nodes;
    if (!text.empty()) out["v1beta2Fields"] = text;
    return out.empty() ? "" : out.dump(-1, ' ', false, json::error_handler_t::replace);
  }
};

// Only what Kept writes itself.
std::optional<Kept> ParseKept(const std::string& text) {
  const auto parsed = ParseFields(text);
  if (!parsed) return std::nullopt;
  Kept kept{0, TextOf(*parsed, "v1beta2Fields")};
  const json& number = MemberOf(*parsed, "numNodes");
  if (number.is_number_integer()) kept.num_nodes = number.get<std::int64_t>();
  if (kept.Text() != text) return std::nullopt;
  return kept;
}

json TakeSpec(json& object) {
  const auto it = object.find("spec");
  return it != object.end() && it->is_object() ? std::move(*it) : json();
}

const std::string& Annotation(const json& object, const char* name) {
  return TextOf(MemberOf(MemberOf(object, "metadata"), "annotations"), name);
}

// "": without it. An object without annotations has no empty map of them either.
void SetAnnotation(json& object, const char* name, const std::string& text) {
  json& metadata = object["metadata"];
  if (!text.empty()) {
    json& annotations = metadata["annotations"];
    if (!annotations.is_object()) annotations = json::object();
    annotations[name] = text;
    return;
  }
  const auto annotations = metadata.find("annotations");
  if (annotations == metadata.end() || !annotations->is_object() || annotations->erase(name) == 0) return;
  if (annotations->empty()) metadata.erase(annotations);
}

void MoveChannel(json& from, json& to) {
  if (const auto it = from.find("channel"); it != from.end()) to["channel"] = std::move(*it);
}

void SpecUp(json& object) {
  json old = TakeSpec(object);
  if (old.is_null()) return;
  json spec = json::object();
  MoveChannel(old, spec);
  const json meant = FieldsOfV1Beta1(spec);
  json fields = meant;
  Kept kept;
  const std::string text = Annotation(object, kV1Beta2Fields);
  if (const auto carried = ParseCarried(text, spec)) {
    Apply(*carried, fields);
    if (text != DifferenceOf(meant, fields)) kept.text = text;
    SetAnnotation(object, kV1Beta2Fields, "");
  }
  for (auto& [name, value] : fields.items()) spec[name] = std::move(value);
  if (const json& number = MemberOf(old, "numNodes"); number.is_number_integer()) kept.num_nodes = number.get<std::int64_t>();
  const std::string keep = kept.Text();
  if (!keep.empty() || ParseKept(Annotation(object, kV1Beta1Fields))) SetAnnotation(object, kV1Beta1Fields, keep);
  object["spec"] = std::move(spec);
}

void SpecDown(json& object) {
  json fields = TakeSpec(object);
  if (fields.is_null()) return;
  json spec = json::object();
  MoveChannel(fields, spec);
  fields.erase("channel");
  const json meant = FieldsOfV1Beta1(spec);
  Kept kept;
  if (const auto found = ParseKept(Annotation(object, kV1Beta1Fields))) {
    kept = *found;
    SetAnnotation(object, kV1Beta1Fields, "");
  }
  std::string text = DifferenceOf(meant, fields);
  if (const auto carried = ParseCarried(kept.text, spec)) {
    json restored = meant;
    Apply(*carried, restored);
    if (restored == fields) text = kept.text;
  }
  if (!text.empty() || ParseCarried(Annotation(object, kV1Beta2Fields), spec)) SetAnnotation(object, kV1Beta2Fields, text);
  spec["numNodes"] = kept.num_nodes;
  object["spec"] = std::move(spec);
}

}  // namespace

Result<json> ConvertComputeDomain(json object, std::string_view desired_api_version) {
  const auto refuse = [&](std::string why) { return Fail(ErrorCode::kInvalidArgument, std::move(why)); };
  if (!object.is_object()) return refuse("not an object");
  if (desired_api_version != kV1Beta1 && desired_api_version != kV1Beta2)
    return refuse("desiredAPIVersion: must be " + std::string(kV1Beta1) + " or " + kV1Beta2);
  const std::string from = TextOf(object, "apiVersion");
  if (TextOf(object, "kind") != "ComputeDomain") return refuse("kind: must be ComputeDomain");
  if (from == desired_api_version) return object;
  if (from != kV1Beta1 && from != kV1Beta2) return refuse("apiVersion: must be " + std::string(kV1Beta1) + " or " + kV1Beta2);
  if (!MemberOf(object, "metadata").is_object()) return refuse("metadata: must be an object");
  object["apiVersion"] = desired_api_version;
  if (desired_api_version == kV1Beta2) {
    SpecUp(object);
    StatusUp(object);
  } else {
    SpecDown(object);
    StatusDown(object);
  }
  return object;
}

}  // namespace cd::api
