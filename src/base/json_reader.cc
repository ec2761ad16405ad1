#include "src/base/json_reader.h"

#include <algorithm>
#include <limits>

#include "src/base/text.h"

namespace cd {

using nlohmann::json;

namespace {

std::optional<std::int64_t> AsInt64(const json& value) {
  // Unsigned numbers above the signed range would wrap around.
  const bool wraps = value.is_number_unsigned() && value.get<std::uint64_t>() > std::numeric_limits<std::int64_t>::max();
  if (!value.is_number_integer() || wraps) return std::nullopt;
  return value.get<std::int64_t>();
}

bool FitsInt(std::int64_t value) {
  return value >= std::numeric_limits<int>::min() && value <= std::numeric_limits<int>::max();
}

// A path may hold names of foreign origin: keys of labels.
std::string Shown(const std::string& path) {
  return Printable(path, 200);
}

bool IsPlain(const std::string& text) {
  return std::none_of(text.begin(), text.end(), [](unsigned char c) { return c < 0x20 || c == 0x7f; });
}

}  // namespace

bool NestsTooDeep(const json& value, int levels) {
  if (!value.is_structured()) return false;
  return levels == 0 || std::any_of(value.begin(), value.end(), [&](const json& v) { return NestsTooDeep(v, levels - 1); });
}

std::string Quoted(const json& value) {
  constexpr std::size_t kLongest = 80;
  if (NestsTooDeep(value)) return value.is_array() ? "[…]" : "{…}";
  std::string text = value.dump(-1, ' ', true, json::error_handler_t::replace);
  if (text.size() > kLongest) text = text.substr(0, kLongest) + "…";
  return text;
}

JsonReader::JsonReader(const json* object, std::string path, std::optional<Error>& error)
    : object_(object), path_(std::move(path)), error_(error) {
  if (object_ == nullptr || object_->is_object() || object_->is_null() || error_) return;
  error_ = Error{ErrorCode::kInvalidArgument,
                 (path_.empty() ? "object" : Shown(path_)) + ": must be an object, not " + Quoted(*object_)};
}

std::string JsonReader::PathOf(std::string_view name) const {
  return path_.empty() ? std::string(name) : path_ + "." + std::string(name);
}

const json* JsonReader::Find(std::string_view name) const {
  if (object_ == nullptr || !object_->is_object() || error_) return nullptr;
  const auto it = object_->find(name);
  return it == object_->end() || it->is_null() ? nullptr : &*it;
}

void JsonReader::Reject(std::string_view name, std::string_view expected) {
  if (error_) return;
  const json* value = Find(name);
  error_ = Error{ErrorCode::kInvalidArgument,
                 Shown(PathOf(name)) + ": " + std::string(expected) + ", not " + (value == nullptr ? "absent" : Quoted(*value))};
}

std::optional<std::string> JsonReader::OptionalString(std::string_view name) {
  const json* value = Find(name);
  if (value == nullptr) return std::nullopt;
  if (value->is_string()) return value->get<std::string>();
  Reject(name, "must be a string");
  return std::nullopt;
}

std::string JsonReader::String(std::string_view name) {
  return OptionalString(name).value_or("");
}

bool JsonReader::Bool(std::string_view name, bool fallback) {
  const json* value = Find(name);
  if (value == nullptr) return fallback;
  if (value->is_boolean()) return value->get<bool>();
  Reject(name, "must be true or false");
  return fallback;
}

std::int64_t JsonReader::Int64(std::string_view name, std::int64_t fallback) {
  const json* value = Find(name);
  if (value == nullptr) return fallback;
  if (const auto number = AsInt64(*value)) return *number;
  Reject(name, "must be a whole number");
  return fallback;
}

std::optional<int> JsonReader::OptionalInt(std::string_view name) {
  if (!Has(name)) return std::nullopt;
  const std::int64_t value = Int64(name);
  if (FitsInt(value)) return static_cast<int>(value);
  Reject(name, "must be a 32-bit number");
  return std::nullopt;
}

int JsonReader::Int(std::string_view name, int fallback) {
  return OptionalInt(name).value_or(fallback);
}

int JsonReader::IntWithin(std::string_view name, int low, int high, int fallback) {
  const json* value = Find(name);
  if (value == nullptr) return fallback;
  const auto number = AsInt64(*value);
  if (number && *number >= low && *number <= high) return static_cast<int>(*number);
  Reject(name, "must be a whole number from " + std::to_string(low) + " to " + std::to_string(high));
  return fallback;
}

std::string JsonReader::PlainText(std::string_view name, std::size_t longest) {
  std::string text = String(name);
  if (text.size() <= longest && IsPlain(text)) return text;
  Reject(name, "must be text of at most " + std::to_string(longest) + " bytes without control characters");
  return "";
}

const json* JsonReader::FindArray(std::string_view name) {
  const json* value = Find(name);
  if (value == nullptr || value->is_array()) return value;
  Reject(name, "must be a list");
  return nullptr;
}

std::vector<std::string> JsonReader::Strings(std::string_view name) {
  std::vector<std::string> out;
  const json* array = FindArray(name);
  if (array == nullptr) return out;
  for (const json& item : *array) {
    if (!item.is_string()) {
      Reject(name, "must be a list of strings");
      return {};
    }
    out.push_back(item.get<std::string>());
  }
  return out;
}

std::vector<int> JsonReader::Ints(std::string_view name) {
  std::vector<int> out;
  const json* array = FindArray(name);
  if (array == nullptr) return out;
  for (const json& item : *array) {
    const auto number = AsInt64(item);
    if (!number || !FitsInt(*number)) {
      Reject(name, "must be a list of 32-bit whole numbers");
      return {};
    }
    out.push_back(static_cast<int>(*number));
  }
  return out;
}

JsonReader JsonReader::Child(std::string_view name) {
  return {Find(name), PathOf(name), error_};
}

std::vector<JsonReader> JsonReader::Children(std::string_view name, std::size_t most) {
  std::vector<JsonReader> out;
  const json* array = FindArray(name);
  if (array == nullptr) return out;
  if (array->size() > most) {
    Reject(name, "must be a list of at most " + std::to_string(most) + " elements");
    return out;
  }
  out.reserve(array->size());
  for (std::size_t i = 0; i < array->size(); ++i) {
    out.emplace_back(&(*array)[i], PathOf(name) + "[" + std::to_string(i) + "]", error_);
  }
  return out;
}

Result<json> ParseJson(std::string_view text, std::size_t max_bytes, int max_depth) {
  if (text.size() > max_bytes) return Fail(ErrorCode::kInvalidArgument, "longer than " + std::to_string(max_bytes) + " bytes");
  bool too_deep = false;
  const auto limit = [&](int depth, json::parse_event_t, json&) {
    too_deep = too_deep || depth > max_depth;
    return !too_deep;
  };
  json parsed = json::parse(text, limit, /*allow_exceptions=*/false);
  if (parsed.is_discarded() || too_deep) return Fail(ErrorCode::kInvalidArgument, "not JSON, or nested too deeply");
  return parsed;
}

}  // namespace cd
