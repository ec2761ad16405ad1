#include "emulator/imexctl/query.h"

#include <nlohmann/json.hpp>

#include "emulator/base/net.h"
#include "emulator/imex/node_map.h"
#include "emulator/imex/resolver.h"

namespace emu::imexctl {
namespace {

using nlohmann::json;

constexpr Milliseconds kConnectTimeout{2000};
constexpr Milliseconds kDomainTimeout{3000};

NodeAnswer Decode(const json& answer) {
  NodeAnswer node;
  node.state = answer.at("state").get<std::string>();
  node.version = answer.at("version").get<std::string>();
  node.host_name = answer.at("hostName").get<std::string>();
  for (const auto& [id, word] : answer.at("connections").items()) {
    node.connections[std::stoi(id)] = word.get<std::string>();
  }
  return node;
}

}  // namespace

Query::Query(EventLoop& loop, const SocketAddress& address, const std::string& operation, Answer answer, Failed failed)
    : loop_(loop), operation_(operation), answer_(std::move(answer)), failed_(std::move(failed)) {
  dial_ = std::make_unique<Dial>(loop_, address, kConnectTimeout, [this](Result<UniqueFd> socket) {
    if (!socket) return failed_(socket.error().message);
    Ask(*std::move(socket));
  });
}

Query::Query(EventLoop& loop, UniqueFd connected, const std::string& operation, Answer answer, Failed failed)
    : loop_(loop), operation_(operation), answer_(std::move(answer)), failed_(std::move(failed)) {
  Ask(std::move(connected));
}

void Query::Ask(UniqueFd socket) {
  stream_ = std::make_unique<JsonStream>(loop_, std::move(socket), answer_, failed_);
  stream_->Send({{"op", operation_}});
}

Result<std::unique_ptr<Query>> QueryTarget(EventLoop& loop, const Arguments& arguments, const std::optional<imex::Config>& config,
                                           const std::string& operation, Query::Answer answer, Query::Failed failed) {
  std::string unix_path = arguments.unix_path.value_or("");
  TcpTarget target = arguments.tcp.value_or(TcpTarget{"127.0.0.1", 0});
  if (config) {
    if (!config->cmd_enabled) return Fail("the command service is not enabled");
    if (config->cmd_port) target.port = *config->cmd_port;
    if (!config->cmd_bind_ip.empty()) target.ip = config->cmd_bind_ip;
    if (!config->cmd_port) unix_path = config->cmd_unix_path;
  }
  if (!unix_path.empty()) {
    auto socket = ConnectUnix(unix_path);
    if (!socket) return tl::unexpected(socket.error());
    return std::make_unique<Query>(loop, *std::move(socket), operation, std::move(answer), std::move(failed));
  }
  const auto address = ParseAddress(target.ip, target.port);
  if (!address) return tl::unexpected(address.error());
  return std::make_unique<Query>(loop, *address, operation, std::move(answer), std::move(failed));
}

Domain AskDomain(const imex::Config& config, const std::string& node_file_text) {
  const imex::NodeMap map = imex::ParseNodeMap(node_file_text);
  const std::vector<std::string> own =
      config.bind_ip.empty() ? imex::InterfaceAddresses() : std::vector<std::string>{config.bind_ip};
  Domain domain;
  if (const auto entry = imex::FindOwnEntry(map, own, imex::Resolve)) domain.local = entry->id;
  domain.nodes.resize(map.entries.size());

  EventLoop loop;
  std::vector<std::unique_ptr<Query>> queries;
  size_t open = 0;
  const auto done = [&] {
    if (--open == 0) loop.Stop(0);
  };
  for (size_t id = 0; id < map.entries.size(); ++id) {
    const auto addresses = imex::Resolve(map.entries[id]);
    domain.nodes[id].host = addresses.empty() ? map.entries[id] : addresses.front();
    if (addresses.empty() || !config.cmd_port) continue;
    const auto address = ParseAddress(addresses.front(), *config.cmd_port, config.interface);
    if (!address) continue;
    ++open;
    queries.push_back(std::make_unique<Query>(
        loop, *address, "node",
        [&, id](const json& answer) {
          // One question, one answer: what follows is none.
          if (domain.nodes[id].answer) return;
          domain.nodes[id].answer = Decode(answer);
          done();
        },
        [&, id](const std::string&) {
          if (!domain.nodes[id].answer) done();
        }));
  }
  const auto timeout = loop.After(kDomainTimeout, [&] { loop.Stop(0); });
  if (open > 0) loop.Run();
  return domain;
}

}  // namespace emu::imexctl
