// Command line of the mnnvl program.
#pragma once

#include <cstdint>
#include <optional>
#include <string>

#include "emulator/base/result.h"

namespace emu::mnnvl {

enum class Command { kHelp, kChannels, kExport, kImport };

struct Arguments {
  Command command = Command::kHelp;
  std::optional<int> channel;  // else: the lowest in the container's /dev
  unsigned gpu = 0;
  uint64_t size = 2U << 20;
  std::string text = "hello";
  std::string handle;
  bool hold = false;
};

extern const char* const kUsage;

Result<Arguments> ParseArguments(int argc, char** argv);

}  // namespace emu::mnnvl
