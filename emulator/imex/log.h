// The daemon's log: lines in the shape and place of nvidia-imex, and a buffer of detail that SIGHUP writes out.
#pragma once

#include <cstdio>
#include <deque>
#include <memory>
#include <string>

namespace emu::imex {

enum class Level { kCritical = 1, kError = 2, kWarning = 3, kInfo = 4 };

struct LogOptions {
  int level = 4;
  std::string file;  // empty or not writable: stderr
  bool append = true;
  int max_megabytes = 1024;
  int rotations = 3;
  bool syslog = false;
};

class Log {
 public:
  explicit Log(LogOptions options);

  void Write(Level level, const std::string& text);
  void Info(const std::string& text) { Write(Level::kInfo, text); }
  void Warning(const std::string& text) { Write(Level::kWarning, text); }
  void Error(const std::string& text) { Write(Level::kError, text); }

  // Kept in memory only, until SIGHUP or the end.
  void Verbose(const std::string& text);
  void DumpVerbose();

 private:
  struct CloseFile {
    void operator()(std::FILE* file) const {
      if (file != stderr) std::fclose(file);
    }
  };

  void Open(bool append);
  bool RoomLeft();
  std::string Prefix(const char* level) const;

  const LogOptions options_;
  std::unique_ptr<std::FILE, CloseFile> out_;
  std::deque<std::string> verbose_;
};

// "9/18/2026 06:40:33.561": month and day without leading zero.
std::string Timestamp();

}  // namespace emu::imex
