// Reads JSON of foreign origin field by field. The first wrong type is remembered with its path; every read after it returns the
// default, so a decoder is straight-line code and asks once at its end.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <limits>
#include <nlohmann/json.hpp>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "src/base/result.h"

namespace cd {

// A value as it stands in a message: JSON, at most 80 bytes, so that hostile input can neither flood nor break a log line or
// event.
std::string Quoted(const nlohmann::json& value);

// Deeper than `levels`, which no value of ours is: writing it out would take stack for every level, and its author chose how
// many.
bool NestsTooDeep(const nlohmann::json& value, int levels = 16);

template <typename E>
using EnumName = std::pair<std::string_view, E>;

class JsonReader {
 public:
  // `error` outlives the reader and its children. A missing or null `object` reads as empty.
  JsonReader(const nlohmann::json* object, std::string path, std::optional<Error>& error);

  bool Has(std::string_view name) const { return Find(name) != nullptr; }
  std::string String(std::string_view name);
  std::optional<std::string> OptionalString(std::string_view name);
  bool Bool(std::string_view name, bool fallback = false);
  int Int(std::string_view name, int fallback = 0);
  std::int64_t Int64(std::string_view name, std::int64_t fallback = 0);
  std::optional<int> OptionalInt(std::string_view name);
  // From `low` to `high`; anything else is an error, a missing value is `fallback`.
  int IntWithin(std::string_view name, int low, int high, int fallback);
  // Without control characters, at most `longest` bytes: for what ends in files, logs and host names.
  std::string PlainText(std::string_view name, std::size_t longest = 253);
  std::vector<std::string> Strings(std::string_view name);
  std::vector<int> Ints(std::string_view name);

  // A missing value is `fallback`; a value outside the table is an error that lists the table.
  template <typename E, std::size_t N>
  E Enum(std::string_view name, const std::array<EnumName<E>, N>& table, E fallback) {
    const auto text = OptionalString(name);
    if (!text) return fallback;
    std::string allowed;
    for (const auto& [label, value] : table) {
      if (*text == label) return value;
      allowed.append(allowed.empty() ? "" : ", ").append(label);
    }
    Reject(name, "must be one of " + allowed);
    return fallback;
  }

  JsonReader Child(std::string_view name);
  std::vector<JsonReader> Children(std::string_view name, std::size_t most = std::numeric_limits<std::size_t>::max());
  const nlohmann::json* Find(std::string_view name) const;
  std::string PathOf(std::string_view name) const;
  // For what only the caller can judge: "<path>: <expected>, not <value>" becomes the error, if there was none before.
  void Reject(std::string_view name, std::string_view expected);

 private:
  const nlohmann::json* FindArray(std::string_view name);

  const nlohmann::json* object_;
  std::string path_;
  std::optional<Error>& error_;
};

// Parses with limits on size and depth, so that foreign text can neither fill the memory nor exhaust the stack; kInvalidArgument
// otherwise. Our own files nest four levels.
Result<nlohmann::json> ParseJson(std::string_view text, std::size_t max_bytes, int max_depth = 16);

template <typename E, std::size_t N>
std::string NameOf(E value, const std::array<EnumName<E>, N>& table) {
  for (const auto& [label, entry] : table) {
    if (entry == value) return std::string(label);
  }
  return "";
}

}  // namespace cd
