// Whole-file reads and atomic writes.
#pragma once

#include <string>

#include "emulator/base/result.h"

namespace emu {

Result<std::string> ReadFile(const std::string& path);

// Writes to a temporary name beside `path` and renames, so that readers see the old or the new text, never half.
Result<void> WriteFileAtomically(const std::string& path, const std::string& text);

}  // namespace emu
