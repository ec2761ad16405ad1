// nodes_config.cfg: the members of an IMEX domain, one address or host name a line; the position is the node ID.
#pragma once

#include <functional>
#include <optional>
#include <string>
#include <vector>

namespace emu::imex {

struct NodeMap {
  std::vector<std::string> entries;  // index = node ID
  // Of the lines in order; members with another hash are refused.
  std::string Hash() const;
};

// Blank lines and lines that start with `#` name no node.
NodeMap ParseNodeMap(const std::string& text);

// Is the entry a literal address, as opposed to a host name?
bool IsAddress(const std::string& entry);

struct OwnEntry {
  int id;
  std::string ip;
};

// The first entry with one of `own_addresses` among its addresses: those of the machine's interfaces, or only the address
// to bind to where one is configured.
std::optional<OwnEntry> FindOwnEntry(const NodeMap& map, const std::vector<std::string>& own_addresses,
                                     const std::function<std::vector<std::string>(const std::string&)>& resolve);

}  // namespace emu::imex
