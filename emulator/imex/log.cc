#include "emulator/imex/log.h"

#include <syslog.h>
#include <unistd.h>

#include <cerrno>
#include <ctime>

namespace emu::imex {
namespace {

constexpr size_t kVerboseLines = 2000;

struct Now {
  std::tm local{};
  int milliseconds = 0;
};

Now CurrentTime() {
  std::timespec time{};
  ::clock_gettime(CLOCK_REALTIME, &time);
  Now now;
  ::localtime_r(&time.tv_sec, &now.local);
  now.milliseconds = static_cast<int>(time.tv_nsec / 1000000);
  return now;
}

const char* Name(Level level) {
  switch (level) {
    case Level::kCritical:
      return "CRITICAL";
    case Level::kError:
      return "ERROR";
    case Level::kWarning:
      return "WARNING";
    case Level::kInfo:
      return "INFO";
  }
  return "";
}

}  // namespace

std::string Timestamp() {
  const Now now = CurrentTime();
  char text[64];
  std::snprintf(text, sizeof text, "%d/%d/%d %02d:%02d:%02d.%03d", now.local.tm_mon + 1, now.local.tm_mday,
                now.local.tm_year + 1900, now.local.tm_hour, now.local.tm_min, now.local.tm_sec, now.milliseconds);
  return text;
}

Log::Log(LogOptions options) : options_(std::move(options)) {
  Open(options_.append);
  std::fprintf(out_.get(), "IMEX Log initializing at: %s\n", Timestamp().c_str());
  std::fflush(out_.get());
}

void Log::Open(bool append) {
  if (!options_.syslog && !options_.file.empty()) {
    out_.reset(std::fopen(options_.file.c_str(), append ? "ae" : "we"));
  }
  if (out_) return;
  if (!options_.syslog) {
    std::fprintf(stderr, "WARNING: failed to open IMEX log file %s errno = %d\n", options_.file.c_str(),
                 options_.file.empty() ? ENOENT : errno);
    std::fprintf(stderr, "INFO: using stderr for IMEX logging\n");
  }
  out_.reset(stderr);
}

// At the maximum size the older files move up by one; without rotations the log simply ends there.
bool Log::RoomLeft() {
  if (out_.get() == stderr) return true;
  if (std::ftell(out_.get()) < static_cast<long>(options_.max_megabytes) * 1024 * 1024) return true;
  if (options_.rotations == 0) return false;
  for (int i = options_.rotations; i > 1; --i) {
    std::rename((options_.file + "." + std::to_string(i - 1)).c_str(), (options_.file + "." + std::to_string(i)).c_str());
  }
  std::rename(options_.file.c_str(), (options_.file + ".1").c_str());
  Open(false);
  return true;
}

std::string Log::Prefix(const char* level) const {
  const Now now = CurrentTime();
  char text[96];
  char date[32];
  std::strftime(date, sizeof date, "%b %d %Y %H:%M:%S", &now.local);
  std::snprintf(text, sizeof text, "[%s] [%s] [tid %d] ", date, level, static_cast<int>(::gettid()));
  return text;
}

void Log::Write(Level level, const std::string& text) {
  if (static_cast<int>(level) > options_.level) return;
  if (options_.syslog) return ::syslog(level == Level::kInfo ? LOG_INFO : LOG_WARNING, "%s", text.c_str());
  if (!RoomLeft()) return;
  std::fprintf(out_.get(), "%s%s\n", Prefix(Name(level)).c_str(), text.c_str());
  std::fflush(out_.get());
}

void Log::Verbose(const std::string& text) {
  verbose_.push_back(Prefix("VERBOSE") + text);
  if (verbose_.size() > kVerboseLines) verbose_.pop_front();
}

void Log::DumpVerbose() {
  for (const std::string& line : verbose_) std::fprintf(out_.get(), "%s\n", line.c_str());
  std::fflush(out_.get());
  verbose_.clear();
}

}  // namespace emu::imex
