#include "src/fabric/json_fields.h"

#include <algorithm>
#include <utility>

namespace cd::fabric {
namespace {

// Our own files nest four levels; a foreign one must not exhaust the stack when it is destroyed or read.
constexpr int kMaxDepth = 16;

const nlohmann::json& EmptyObject() {
  static const nlohmann::json empty = nlohmann::json::object();
  return empty;
}

bool Printable(const std::string& text) {
  return std::none_of(text.begin(), text.end(), [](unsigned char c) { return c < 0x20 || c == 0x7f; });
}

}  // namespace

JsonFields::JsonFields(const nlohmann::json& object, std::string path, JsonProblems& problems)
    : object_(object.is_object() ? object : EmptyObject()), path_(std::move(path)), problems_(problems) {
  if (!object.is_object()) problems_.Add(path_.empty() ? "file" : path_, "must be an object");
}

std::string JsonFields::Path(std::string_view field) const {
  return path_.empty() ? std::string(field) : path_ + "." + std::string(field);
}

const nlohmann::json* JsonFields::Find(std::string_view field) const {
  const auto it = object_.find(std::string(field));
  return it == object_.end() || it->is_null() ? nullptr : &*it;
}

void JsonFields::Read(std::string_view field, bool& out) const {
  const nlohmann::json* value = Find(field);
  if (value == nullptr) return;
  if (!value->is_boolean()) return problems_.Add(Path(field), "must be true or false");
  out = value->get<bool>();
}

void JsonFields::Read(std::string_view field, int& out, std::int64_t low, std::int64_t high) const {
  const nlohmann::json* value = Find(field);
  if (value == nullptr) return;
  // An unsigned number beyond 63 bits would wrap when read as signed.
  const bool fits = value->is_number_integer() && (!value->is_number_unsigned() || value->get<std::uint64_t>() <= INT64_MAX);
  if (!fits || value->get<std::int64_t>() < low || value->get<std::int64_t>() > high) {
    return problems_.Add(Path(field), "must be a whole number from " + std::to_string(low) + " to " + std::to_string(high));
  }
  out = static_cast<int>(value->get<std::int64_t>());
}

void JsonFields::Read(std::string_view field, std::string& out, std::size_t max) const {
  const nlohmann::json* value = Find(field);
  if (value == nullptr) return;
  const auto* text = value->get_ptr<const std::string*>();
  if (text == nullptr || text->size() > max || !Printable(*text)) {
    return problems_.Add(Path(field), "must be text of at most " + std::to_string(max) + " bytes without control characters");
  }
  out = *text;
}

Result<nlohmann::json> ParseJson(std::string_view text, std::size_t max_bytes) {
  if (text.size() > max_bytes) return Fail(ErrorCode::kInvalidArgument, "longer than " + std::to_string(max_bytes) + " bytes");
  bool too_deep = false;
  const auto limit = [&](int depth, nlohmann::json::parse_event_t, nlohmann::json&) {
    too_deep = too_deep || depth > kMaxDepth;
    return !too_deep;
  };
  nlohmann::json parsed = nlohmann::json::parse(text, limit, /*allow_exceptions=*/false);
  if (parsed.is_discarded() || too_deep) return Fail(ErrorCode::kInvalidArgument, "not JSON, or nested too deeply");
  return parsed;
}

}  // namespace cd::fabric
