// The state of a whole IMEX domain, as put together from its members' answers.
#pragma once

#include <map>
#include <optional>
#include <string>
#include <vector>

namespace emu::imexctl {

struct NodeAnswer {
  std::string state;
  std::string version;
  std::string host_name;
  std::map<int, std::string> connections;  // by node ID
  bool operator==(const NodeAnswer&) const = default;
};

struct Node {
  std::string host;                  // address, or the entry of the node map where it has none
  std::optional<NodeAnswer> answer;  // empty: its command service could not be reached
  bool operator==(const Node&) const = default;
};

struct Domain {
  std::vector<Node> nodes;  // index = node ID
  int local = -1;           // own node ID; -1: none
};

// UP: every member answers READY and is connected to every member. DOWN: none answers. DEGRADED: anything between.
const char* DomainState(const Domain& domain);

// What node `from` says of its connection to node `to`; INVALID when `from` could not be asked.
std::string Connection(const Domain& domain, size_t from, size_t to);

// `previous`: what was shown before; only what differs is then marked as changed.
std::string RenderJson(const Domain& domain, const Domain* previous, bool host_names, const std::string& timestamp);
std::string RenderText(const Domain& domain, bool host_names, const std::string& timestamp);

}  // namespace emu::imexctl
