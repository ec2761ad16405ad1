// Reading foreign JSON field by field with limits: the first wrong field becomes the error, later reads are harmless.
#pragma once

#include <cstdint>
#include <nlohmann/json.hpp>
#include <string>
#include <string_view>

#include "src/base/result.h"

namespace cd::fabric {

// Collects the first error of one decode.
class JsonProblems {
 public:
  void Add(std::string_view field, std::string_view problem) {
    if (text_.empty()) text_ = std::string(field) + ": " + std::string(problem);
  }
  bool empty() const { return text_.empty(); }
  const std::string& text() const { return text_; }

 private:
  std::string text_;
};

// One JSON object of the text; a missing or null field keeps the caller's default.
class JsonFields {
 public:
  // `object` must outlive this. Anything but an object is a problem and reads as an empty one.
  JsonFields(const nlohmann::json& object, std::string path, JsonProblems& problems);

  const nlohmann::json* Find(std::string_view field) const;
  void Read(std::string_view field, bool& out) const;
  void Read(std::string_view field, int& out, std::int64_t low, std::int64_t high) const;
  // Text without control characters, at most `max` bytes.
  void Read(std::string_view field, std::string& out, std::size_t max = 253) const;
  // Calls `each(JsonFields)` for every element of an array of objects.
  template <typename Each>
  void ForEach(std::string_view field, std::size_t max, Each each) const {
    const nlohmann::json* array = Find(field);
    if (array == nullptr) return;
    if (!array->is_array() || array->size() > max) {
      return problems_.Add(Path(field), "must be a list of at most " + std::to_string(max) + " elements");
    }
    for (std::size_t i = 0; i < array->size(); ++i) {
      each(JsonFields((*array)[i], Path(field) + "[" + std::to_string(i) + "]", problems_));
    }
  }
  std::string Path(std::string_view field) const;
  JsonProblems& problems() const { return problems_; }

 private:
  const nlohmann::json& object_;
  std::string path_;
  JsonProblems& problems_;
};

// Parses with a limit on size and depth; kInvalidArgument otherwise.
Result<nlohmann::json> ParseJson(std::string_view text, std::size_t max_bytes);

}  // namespace cd::fabric
