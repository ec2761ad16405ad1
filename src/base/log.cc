#include "src/base/log.h"

#include <unistd.h>

#include <nlohmann/json.hpp>
#include <utility>

namespace cd {
namespace {

struct LogSettings {
  std::string component = "unset";
  LogLevel lowest = LogLevel::kInfo;
  const Clock* clock = nullptr;
};

// Never destroyed: threads may log while the process exits.
LogSettings& Settings() {
  static auto* settings = new LogSettings;
  return *settings;
}

std::string_view LevelName(LogLevel level) {
  switch (level) {
    case LogLevel::kDebug:
      return "debug";
    case LogLevel::kInfo:
      return "info";
    case LogLevel::kWarning:
      return "warning";
    case LogLevel::kError:
      return "error";
  }
  return "error";
}

// Invalid UTF-8 becomes U+FFFD: a foreign byte must never make the line unreadable.
std::string Quote(std::string_view text) {
  return nlohmann::json(text).dump(-1, ' ', false, nlohmann::json::error_handler_t::replace);
}

std::string Render(const LogValue& value) {
  if (const auto* text = std::get_if<std::string>(&value)) return Quote(*text);
  return std::visit([](const auto& v) { return nlohmann::json(v).dump(); }, value);
}

}  // namespace

void InitLog(std::string component, LogLevel lowest, const Clock& clock) {
  Settings() = LogSettings{std::move(component), lowest, &clock};
}

void Log(LogLevel level, std::string_view message, std::initializer_list<LogField> fields) {
  const LogSettings& settings = Settings();
  if (level < settings.lowest) return;
  const Clock& clock = settings.clock != nullptr ? *settings.clock : SystemClock();
  std::string line = "{\"ts\":\"" + FormatMicroTime(clock.WallNow()) + "\",\"level\":\"" + std::string(LevelName(level)) +
                     "\",\"component\":" + Quote(settings.component) + ",\"msg\":" + Quote(message);
  for (const LogField& field : fields) line += "," + Quote(field.key) + ":" + Render(field.value);
  line += "}\n";
  // Losing a line is better than blocking or failing the caller.
  [[maybe_unused]] ssize_t n = ::write(STDERR_FILENO, line.data(), line.size());
}

}  // namespace cd
