#include "emulator/imex/node_map.h"

#include <algorithm>
#include <cstdint>
#include <cstdio>
#include <sstream>

#include "emulator/base/net.h"

namespace emu::imex {

NodeMap ParseNodeMap(const std::string& text) {
  NodeMap map;
  std::istringstream lines(text);
  for (std::string line; std::getline(lines, line);) {
    const size_t first = line.find_first_not_of(" \t\r");
    if (first == std::string::npos || line[first] == '#') continue;
    map.entries.push_back(line.substr(first, line.find_last_not_of(" \t\r") - first + 1));
  }
  return map;
}

std::string NodeMap::Hash() const {
  // FNV-1a: tells maps apart, protects nothing.
  uint64_t hash = 14695981039346656037ULL;
  for (const std::string& entry : entries) {
    for (const char c : entry + "\n") hash = (hash ^ static_cast<unsigned char>(c)) * 1099511628211ULL;
  }
  char text[17];
  std::snprintf(text, sizeof text, "%016llx", static_cast<unsigned long long>(hash));
  return text;
}

bool IsAddress(const std::string& entry) {
  return ParseAddress(entry, 0).has_value();
}

std::optional<OwnEntry> FindOwnEntry(const NodeMap& map, const std::vector<std::string>& own_addresses,
                                     const std::function<std::vector<std::string>(const std::string&)>& resolve) {
  for (size_t id = 0; id < map.entries.size(); ++id) {
    for (const std::string& ip : resolve(map.entries[id])) {
      if (std::find(own_addresses.begin(), own_addresses.end(), ip) != own_addresses.end()) {
        return OwnEntry{static_cast<int>(id), ip};
      }
    }
  }
  return std::nullopt;
}

}  // namespace emu::imex
