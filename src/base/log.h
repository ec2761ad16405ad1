// One JSON line per decision on stderr: {"ts":…,"level":…,"component":…,"msg":…,key:value…}.
// Thread-safe: a line is one write(2). Never log secrets; keys are the field's names (claim, node, computeDomain, error).
#pragma once

#include <cstdint>
#include <initializer_list>
#include <string>
#include <string_view>
#include <type_traits>
#include <variant>

#include "src/base/clock.h"

namespace cd {

enum class LogLevel { kDebug, kInfo, kWarning, kError };

using LogValue = std::variant<std::string, std::int64_t, double, bool>;

struct LogField {
  template <typename T>
  LogField(std::string_view k, const T& v) : key(k), value(Convert(v)) {}

  std::string_view key;
  LogValue value;

 private:
  template <typename T>
  static LogValue Convert(const T& v) {
    if constexpr (std::is_same_v<T, bool>) {
      return v;
    } else if constexpr (std::is_integral_v<T>) {
      return static_cast<std::int64_t>(v);
    } else if constexpr (std::is_floating_point_v<T>) {
      return static_cast<double>(v);
    } else {
      return std::string(v);
    }
  }
};

// Sets what every line of this process carries. Call once, before the first thread starts.
void InitLog(std::string component, LogLevel lowest, const Clock& clock);

void Log(LogLevel level, std::string_view message, std::initializer_list<LogField> fields = {});

inline void LogInfo(std::string_view m, std::initializer_list<LogField> f = {}) {
  Log(LogLevel::kInfo, m, f);
}
inline void LogWarning(std::string_view m, std::initializer_list<LogField> f = {}) {
  Log(LogLevel::kWarning, m, f);
}
inline void LogError(std::string_view m, std::initializer_list<LogField> f = {}) {
  Log(LogLevel::kError, m, f);
}

}  // namespace cd
