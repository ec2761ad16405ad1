#include "emulator/imex/persist.h"

#include <unistd.h>

#include <filesystem>
#include <nlohmann/json.hpp>

#include "emulator/base/files.h"

namespace emu::imex {

using nlohmann::json;

bool Persist::Exists() const {
  return ::access(path().c_str(), F_OK) == 0;
}

std::set<int> Persist::PreviousImporters() const {
  const auto text = ReadFile(path());
  const json saved = text ? json::parse(*text, nullptr, false) : json();
  if (!saved.is_object() || saved.value("key", std::string()) != key_) return {};
  return saved.value("importers", std::set<int>());
}

Result<void> Persist::Add(int importer) {
  return importers_.insert(importer).second ? Save() : Result<void>();
}

Result<void> Persist::Remove(int importer) {
  return importers_.erase(importer) > 0 ? Save() : Result<void>();
}

void Persist::Clear() {
  importers_.clear();
  ::unlink(path().c_str());
}

Result<void> Persist::Save() const {
  std::error_code error;
  std::filesystem::create_directories(directory_, error);
  if (error) return Fail("cannot create " + directory_ + ": " + error.message());
  return WriteFileAtomically(path(), json{{"key", key_}, {"importers", importers_}}.dump() + "\n");
}

}  // namespace emu::imex
