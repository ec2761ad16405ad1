#include "emulator/kernel/server.h"

#include <sys/epoll.h>
#include <sys/socket.h>

#include <cstdio>
#include <nlohmann/json.hpp>

#include "emulator/base/files.h"
#include "emulator/base/net.h"
#include "emulator/kernel/proc_files.h"
#include "emulator/kernel/wire.h"
#include "emulator/node/node_state.h"

namespace emu::kernel {
namespace {

using nlohmann::json;

constexpr const char* kChannelDirectory = "/dev/nvidia-caps-imex-channels";
constexpr const char* kCapabilityDirectory = "/dev/nvidia-caps";
constexpr int kRecoverImexDomain = 5;  // NVML's name for the advice

// A failure to find out is no permission, but must be seen.
template <class T>
T OrNothing(const Result<T>& result) {
  if (result) return *result;
  std::fprintf(stderr, "mnnvl-kernel: %s\n", result.error().message.c_str());
  return T{};
}

std::string HexText(const std::array<uint8_t, 16>& bytes) {
  std::string text;
  char digits[3];
  for (uint8_t byte : bytes) {
    std::snprintf(digits, sizeof digits, "%02x", byte);
    text += digits;
  }
  return text;
}

}  // namespace

Server::Server(EventLoop& loop, Options options, int channel_count)
    : loop_(loop), options_(std::move(options)), model_(channel_count), probe_(options_.directory) {}

Result<void> Server::Start() {
  const auto usable = probe_.SelfTest(options_.major);
  if (!usable) return usable;
  const auto files = WriteProcFiles(options_.directory, options_.major, options_.caps_major, model_.channel_count());
  if (!files) return files;
  PublishRecoveryAction();
  auto listener = ListenUnix(options_.directory + "/kernel.sock", 0666);
  if (!listener) return tl::unexpected(listener.error());
  listener_ = *std::move(listener);
  loop_.Watch(listener_.get(), EPOLLIN, [this](uint32_t) { AcceptClients(); });
  return {};
}

void Server::AcceptClients() {
  for (UniqueFd socket = Accept(listener_); socket.valid(); socket = Accept(listener_)) {
    ucred credentials{};
    socklen_t length = sizeof credentials;
    if (::getsockopt(socket.get(), SOL_SOCKET, SO_PEERCRED, &credentials, &length) != 0) continue;
    const ClientId id = next_client_++;
    model_.AddClient(id);
    Client& client = clients_[id];
    client.caller = {credentials.pid, credentials.uid, credentials.gid};
    client.stream = std::make_unique<JsonStream>(
        loop_, std::move(socket), [this, id](const json& request) { OnRequest(id, request); },
        [this, id](const std::string&) { OnClosed(id); });
  }
}

void Server::OnClosed(ClientId id) {
  clients_.erase(id);
  Deliver(model_.RemoveClient(id));
  PublishRecoveryAction();
}

void Server::OnRequest(ClientId id, const json& request) {
  static const std::map<std::string, Operation> kOperations = {
      {"channels", &Server::Channels},       {"subscribe", &Server::Subscribe},
      {"export", &Server::Export},           {"import", &Server::Import},
      {"openSession", &Server::OpenSession}, {"closeSession", &Server::CloseSession},
      {"duplicate", &Server::Duplicate},     {"releaseDuplicate", &Server::ReleaseDuplicate},
      {"dropNode", &Server::DropNode},       {"finishImport", &Server::FinishImport},
  };
  const auto operation = kOperations.find(request.at("op").get<std::string>());
  json reply = operation == kOperations.end() ? StatusReply(NvStatus::kInvalidArgument) : (this->*operation->second)(id, request);
  // Null: the reply follows when nvidia-imex has answered.
  if (reply.is_null()) return;
  reply["id"] = request.value("id", json());
  clients_.at(id).stream->Send(reply);
}

json Server::Channels(ClientId id, const json&) {
  json reply = StatusReply(NvStatus::kOk);
  reply["channels"] = OrNothing(Possessed(probe_, clients_.at(id).caller, kChannelDirectory, options_.major));
  return reply;
}

json Server::Subscribe(ClientId id, const json& request) {
  const int channel = request.at("channel").get<int>();
  const Caller& caller = clients_.at(id).caller;
  const bool possessed =
      channel >= 0 && OrNothing(Possesses(probe_, caller, kChannelDirectory, options_.major, static_cast<unsigned>(channel)));
  const NvStatus status = model_.Subscribe(id, channel, possessed);
  std::fprintf(stderr, "process %d subscribes to channel %d: %s\n", caller.pid, channel, Names(status).nv);
  return StatusReply(status);
}

// The clique of the GPU the request names; an error when that GPU is not part of a working fabric.
Result<Clique> Server::CliqueOf(const json& request) const {
  const auto node = ReadNodeState(options_.directory);
  if (!node) return tl::unexpected(node.error());
  const size_t index = request.value("gpu", size_t{0});
  if (index >= node->gpus.size()) return Fail("no such GPU");
  const Gpu& gpu = node->gpus[index];
  if (!gpu.FabricReady()) return Fail("GPU is not attached to a fabric");
  return Clique{HexText(gpu.cluster_uuid), gpu.clique_id};
}

json Server::Export(ClientId id, const json& request) {
  const auto clique = CliqueOf(request);
  if (!clique && model_.SubscribedChannel(id)) return StatusReply(NvStatus::kNotSupported);
  const Memory memory{clique.value_or(Clique{}), request.value("size", uint64_t{0}), request.value("text", std::string())};
  const auto handle = model_.Export(id, memory);
  if (!handle) return StatusReply(handle.error());
  json reply = StatusReply(NvStatus::kOk);
  reply["handle"] = ToString(*handle);
  return reply;
}

json Server::Import(ClientId id, const json& request) {
  const auto handle = ParseHandle(request.at("handle").get<std::string>());
  if (!handle) return StatusReply(NvStatus::kInvalidArgument);
  const auto clique = CliqueOf(request);
  if (!clique && model_.SubscribedChannel(id)) return StatusReply(NvStatus::kNotSupported);
  auto result = model_.Import(id, *handle, clique.value_or(Clique{}));
  if (!result) return StatusReply(result.error());
  if (const auto* memory = std::get_if<Memory>(&*result)) return ToReply(*memory);
  const auto& pending = std::get<Model::Pending>(*result);
  clients_.at(id).pending[pending.token] = request.value("id", json()).dump();
  Deliver(pending.notices);
  return nullptr;
}

json Server::OpenSession(ClientId id, const json& request) {
  const auto node = ReadNodeState(options_.directory);
  if (!node) return StatusReply(NvStatus::kInvalidState);
  json reply = StatusReply(NvStatus::kVersionMismatch);
  reply["driverVersion"] = node->driver_version;
  if (request.at("version").get<std::string>() != node->driver_version) return reply;
  const Caller& caller = clients_.at(id).caller;
  const bool capable = OrNothing(Possesses(probe_, caller, kCapabilityDirectory, options_.caps_major, kCapabilityMinor));
  const NvStatus status = model_.OpenSession(id, request.at("nodeId").get<int>(), capable);
  std::fprintf(stderr, "process %d opens the IMEX session: %s\n", caller.pid, Names(status).nv);
  PublishRecoveryAction();
  reply["status"] = Names(status).nv;
  return reply;
}

json Server::CloseSession(ClientId id, const json&) {
  Deliver(model_.CloseSession(id));
  return StatusReply(NvStatus::kOk);
}

json Server::Duplicate(ClientId id, const json& request) {
  return ToReply(model_.Duplicate(id, request.at("counter").get<uint64_t>(), request.at("channel").get<int>(),
                                  request.at("importer").get<int>()));
}

json Server::ReleaseDuplicate(ClientId id, const json& request) {
  return StatusReply(model_.ReleaseDuplicate(id, request.at("counter").get<uint64_t>(), request.at("importer").get<int>()));
}

json Server::DropNode(ClientId id, const json& request) {
  const auto notices = model_.DropNode(id, request.at("nodeId").get<int>());
  if (!notices) return StatusReply(notices.error());
  Deliver(*notices);
  return StatusReply(NvStatus::kOk);
}

json Server::FinishImport(ClientId id, const json& request) {
  const NvStatus status = NvStatusFromName(request.at("result").get<std::string>());
  const NvResult<Memory> result =
      status == NvStatus::kOk ? NvResult<Memory>(MemoryFromJson(request.at("memory"))) : tl::unexpected<NvStatus>(status);
  Deliver(model_.FinishImport(id, request.at("token").get<uint64_t>(), result));
  return StatusReply(NvStatus::kOk);
}

void Server::Deliver(const Notices& notices) {
  for (const Notice& notice : notices) DeliverOne(notice);
}

void Server::DeliverOne(const Notice& notice) {
  const auto found = clients_.find(notice.to);
  if (found == clients_.end()) return;
  Client& client = found->second;
  json message;
  if (const auto* import = std::get_if<ForwardImport>(&notice.what)) {
    message = {{"event", "import"},
               {"token", import->token},
               {"nodeId", import->handle.node_id},
               {"counter", import->handle.counter},
               {"channel", import->channel}};
  } else if (const auto* release = std::get_if<ReleaseImport>(&notice.what)) {
    message = {{"event", "release"}, {"nodeId", release->handle.node_id}, {"counter", release->handle.counter}};
  } else if (const auto* invalid = std::get_if<ImportInvalidated>(&notice.what)) {
    std::fprintf(stderr, "process %d loses its import %s: %s\n", client.caller.pid, ToString(invalid->handle).c_str(),
                 invalid->reason.c_str());
    message = {{"event", "invalidated"}, {"handle", ToString(invalid->handle)}, {"reason", invalid->reason}};
  } else if (const auto* done = std::get_if<ImportDone>(&notice.what)) {
    const auto request = client.pending.extract(done->token);
    message = ToReply(done->result);
    message["id"] = request.empty() ? json() : json::parse(request.mapped());
  }
  client.stream->Send(message);
}

// NVML reads the advice from here; node.json belongs to the lab.
void Server::PublishRecoveryAction() {
  const int action = model_.AllocationBlocked() ? kRecoverImexDomain : 0;
  const auto written = WriteFileAtomically(options_.directory + "/recovery_action", std::to_string(action) + "\n");
  if (!written) std::fprintf(stderr, "mnnvl-kernel: %s\n", written.error().message.c_str());
}

}  // namespace emu::kernel
