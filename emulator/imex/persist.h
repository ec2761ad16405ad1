// Which nodes had imported memory from this one, for a restart after a crash.
#pragma once

#include <optional>
#include <set>
#include <string>

#include "emulator/base/result.h"

namespace emu::imex {

inline constexpr const char* kPersistDirectory = "/var/run/nvidia-imex";

class Persist {
 public:
  // `key` is made from the node file: what was written under another one is worthless.
  Persist(std::string directory, std::string key) : directory_(std::move(directory)), key_(std::move(key)) {}

  bool Exists() const;
  // Of the last run, if it ended without Clear(); empty when the node file changed.
  std::set<int> PreviousImporters() const;

  Result<void> Add(int importer);
  Result<void> Remove(int importer);
  // The end in good order.
  void Clear();

  std::string path() const { return directory_ + "/persist.dat"; }

 private:
  Result<void> Save() const;

  const std::string directory_;
  const std::string key_;
  std::set<int> importers_;
};

}  // namespace emu::imex
