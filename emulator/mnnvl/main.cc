// mnnvl: what a CUDA program does with fabric memory, as a command: export, import, and the channels it may use.
#include <dirent.h>
#include <sys/stat.h>
#include <sys/sysmacros.h>

#include <cstdio>
#include <memory>

#include "emulator/mnnvl/arguments.h"
#include "emulator/mnnvl/client.h"
#include "emulator/node/node_state.h"
#include "emulator/node/nv_status.h"

namespace emu::mnnvl {
namespace {

using nlohmann::json;

constexpr int kExitUsage = 2;
constexpr int kExitImportLost = 20;
constexpr int kExitNoKernel = 21;

// As the CUDA driver does: whatever channel device is there. The kernel judges whether it counts.
std::optional<int> LowestChannelDevice() {
  const std::string directory = "/dev/nvidia-caps-imex-channels";
  const std::unique_ptr<DIR, int (*)(DIR*)> stream(::opendir(directory.c_str()), &::closedir);
  std::optional<int> lowest;
  while (stream) {
    const dirent* entry = ::readdir(stream.get());
    if (entry == nullptr) break;
    struct stat node;
    if (::lstat((directory + "/" + entry->d_name).c_str(), &node) != 0 || !S_ISCHR(node.st_mode)) continue;
    const int channel = static_cast<int>(::minor(node.st_rdev));
    if (!lowest || channel < *lowest) lowest = channel;
  }
  return lowest;
}

int Complain(const std::string& what, const json& reply) {
  const NvStatusNames& names = Names(NvStatusFromName(reply.at("status").get<std::string>()));
  std::fprintf(stderr, "mnnvl: %s: %s (%s)\n", what.c_str(), names.cuda, names.nv);
  return names.exit_code;
}

// A wait ended without an answer: by a signal, which is how this program is meant to end, or with the connection.
int EndOfWait(const Client& client) {
  if (!client.closed()) return 0;
  std::fprintf(stderr, "mnnvl: the kernel driver is gone\n");
  return kExitNoKernel;
}

bool Ok(const json& reply) {
  return reply.at("status") == Names(NvStatus::kOk).nv;
}

int HoldImport(Client& client) {
  const auto event = client.WaitForEvent();
  if (!event) return EndOfWait(client);
  std::fprintf(stderr, "mnnvl: import %s lost: %s\n", event->at("handle").get<std::string>().c_str(),
               event->at("reason").get<std::string>().c_str());
  return kExitImportLost;
}

int Channels(Client& client) {
  const auto reply = client.Call({{"op", "channels"}});
  if (!reply) return EndOfWait(client);
  if (!Ok(*reply)) return Complain("channels", *reply);
  for (const json& channel : reply->at("channels")) std::printf("%d\n", channel.get<int>());
  return 0;
}

int Export(Client& client, const Arguments& arguments) {
  const auto reply = client.Call({{"op", "export"}, {"gpu", arguments.gpu}, {"size", arguments.size}, {"text", arguments.text}});
  if (!reply) return EndOfWait(client);
  if (!Ok(*reply)) return Complain("export", *reply);
  std::printf("%s\n", reply->at("handle").get<std::string>().c_str());
  std::fflush(stdout);
  client.WaitForEvent();
  return EndOfWait(client);
}

int Import(Client& client, const Arguments& arguments) {
  const auto reply = client.Call({{"op", "import"}, {"handle", arguments.handle}, {"gpu", arguments.gpu}});
  if (!reply) return EndOfWait(client);
  if (!Ok(*reply)) return Complain("import " + arguments.handle, *reply);
  std::printf("%s\n", reply->at("memory").at("text").get<std::string>().c_str());
  std::fflush(stdout);
  return arguments.hold ? HoldImport(client) : 0;
}

int Run(const Arguments& arguments) {
  Client client;
  const auto connected = client.Connect(NodeDirectory() + "/kernel.sock");
  if (!connected) {
    std::fprintf(stderr, "mnnvl: no kernel driver: %s\n", connected.error().message.c_str());
    return kExitNoKernel;
  }
  if (arguments.command == Command::kChannels) return Channels(client);
  const std::optional<int> channel = arguments.channel ? arguments.channel : LowestChannelDevice();
  if (channel) {
    const auto reply = client.Call({{"op", "subscribe"}, {"channel", *channel}});
    if (!reply) return EndOfWait(client);
    if (!Ok(*reply)) return Complain("channel " + std::to_string(*channel), *reply);
  }
  return arguments.command == Command::kExport ? Export(client, arguments) : Import(client, arguments);
}

}  // namespace
}  // namespace emu::mnnvl

int main(int argc, char** argv) {
  const auto arguments = emu::mnnvl::ParseArguments(argc, argv);
  if (!arguments) {
    std::fprintf(stderr, "mnnvl: %s\n%s", arguments.error().message.c_str(), emu::mnnvl::kUsage);
    return emu::mnnvl::kExitUsage;
  }
  if (arguments->command == emu::mnnvl::Command::kHelp) {
    std::fputs(emu::mnnvl::kUsage, stdout);
    return 0;
  }
  try {
    return emu::mnnvl::Run(*arguments);
  } catch (const nlohmann::json::exception& e) {
    std::fprintf(stderr, "mnnvl: unexpected answer of the kernel driver: %s\n", e.what());
    return 1;
  }
}
