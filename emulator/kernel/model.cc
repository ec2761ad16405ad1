#include "emulator/kernel/model.h"

#include <utility>

namespace emu::kernel {
namespace {

tl::unexpected<NvStatus> Refuse(NvStatus status) {
  return tl::unexpected<NvStatus>(status);
}

}  // namespace

void Model::AddClient(ClientId client) {
  clients_[client];
}

Notices Model::RemoveClient(ClientId client) {
  Notices notices = IsSession(client) ? LoseSession() : Notices{};
  const Client gone = std::move(clients_[client]);
  clients_.erase(client);
  for (auto& [token, pending] : pending_) {
    if (pending.client == client) pending.client.reset();
  }
  for (const Handle& handle : gone.remote_imports) {
    if (session_) notices.push_back({session_->client, ReleaseImport{handle}});
  }
  for (const Handle& handle : gone.local_imports) DropLocalReference(handle);
  std::vector<Handle> owned;
  for (const auto& [handle, owner] : owners_) {
    if (owner == client) owned.push_back(handle);
  }
  for (const Handle& handle : owned) {
    owners_.erase(handle);
    if (const auto found = exports_.find(handle); found != exports_.end()) {
      // Memory that others still use outlives its exporter.
      found->second.owned = false;
      Forget(handle);
    }
  }
  return notices;
}

NvStatus Model::Subscribe(ClientId client, int channel, bool possessed) {
  if (channel_count_ == 0) return NvStatus::kNotSupported;
  if (!possessed || channel < 0 || channel >= channel_count_) return NvStatus::kInsufficientPermissions;
  std::optional<int>& subscribed = clients_.at(client).channel;
  if (subscribed && *subscribed != channel) return NvStatus::kStateInUse;
  subscribed = channel;
  return NvStatus::kOk;
}

std::optional<int> Model::SubscribedChannel(ClientId client) const {
  return clients_.at(client).channel;
}

NvResult<Handle> Model::Export(ClientId id, Memory memory) {
  const Client& client = clients_.at(id);
  if (!client.channel) return Refuse(NvStatus::kInsufficientPermissions);
  if (client.disabled || allocation_blocked_) return Refuse(NvStatus::kInvalidState);
  const Handle handle{session_ ? session_->node_id : kNoNodeId, next_counter_++};
  exports_[handle] = {.channel = *client.channel, .memory = std::move(memory)};
  owners_[handle] = id;
  return handle;
}

NvResult<std::variant<Memory, Model::Pending>> Model::Import(ClientId id, const Handle& handle, const Clique& mapper) {
  Client& client = clients_.at(id);
  if (!client.channel) return Refuse(NvStatus::kInsufficientPermissions);
  if (client.disabled) return Refuse(NvStatus::kInvalidState);
  const bool local =
      handle.node_id == kNoNodeId || exports_.contains(handle) || (session_ && session_->node_id == handle.node_id);
  if (local) return ImportLocally(client, handle, mapper);
  if (!session_) return Refuse(NvStatus::kNotSupported);
  const uint64_t token = next_token_++;
  pending_[token] = {id, handle, mapper};
  return Pending{token, {{session_->client, ForwardImport{token, handle, *client.channel}}}};
}

NvResult<Memory> Model::ImportLocally(Client& client, const Handle& handle, const Clique& mapper) {
  const auto found = exports_.find(handle);
  if (found == exports_.end()) {
    // A handle made without a session is known to its own kernel only.
    return Refuse(handle.node_id == kNoNodeId ? NvStatus::kNotSupported : NvStatus::kObjectNotFound);
  }
  Exported& entry = found->second;
  if (entry.channel != *client.channel) return Refuse(NvStatus::kInsufficientPermissions);
  if (entry.memory.clique != mapper) return Refuse(NvStatus::kInvalidObject);
  ++entry.local_references;
  client.local_imports.insert(handle);
  return entry.memory;
}

void Model::DropLocalReference(const Handle& handle) {
  const auto found = exports_.find(handle);
  if (found == exports_.end()) return;
  --found->second.local_references;
  Forget(handle);
}

void Model::Forget(const Handle& handle) {
  const auto found = exports_.find(handle);
  if (found != exports_.end() && found->second.Unused()) exports_.erase(found);
}

NvStatus Model::OpenSession(ClientId client, int node_id, bool capable) {
  if (node_id < 0 || node_id >= kNoNodeId) return NvStatus::kInvalidArgument;
  if (session_) return NvStatus::kInUse;
  if (!capable) return NvStatus::kInsufficientPermissions;
  session_ = Session{client, node_id};
  allocation_blocked_ = false;
  return NvStatus::kOk;
}

Notices Model::CloseSession(ClientId client) {
  if (!IsSession(client)) return {};
  for (auto& [handle, entry] : exports_) entry.duplicates.clear();
  return LoseSession();
}

Notices Model::LoseSession() {
  const int node_id = session_->node_id;
  session_.reset();
  for (const auto& [handle, entry] : exports_) {
    // Memory that other nodes may still write to must not be given out again before an administrator dealt with it.
    if (!entry.duplicates.empty()) allocation_blocked_ = true;
  }
  std::erase_if(exports_, [&](const auto& entry) { return entry.first.node_id == node_id; });
  Notices notices;
  for (const auto& [token, pending] : std::exchange(pending_, {})) {
    if (pending.client) notices.push_back({*pending.client, ImportDone{token, Refuse(NvStatus::kInvalidState)}});
  }
  const Notices disabled = Disable("nvidia-imex of this node is gone", std::nullopt);
  notices.insert(notices.end(), disabled.begin(), disabled.end());
  return notices;
}

// Takes away what came from `exporter` (from anywhere if empty); a client that loses a mapping may make no new ones.
Notices Model::Disable(const std::string& reason, std::optional<int> exporter) {
  Notices notices;
  for (auto& [id, client] : clients_) {
    const std::multiset<Handle> imports = client.remote_imports;
    for (const Handle& handle : imports) {
      if (exporter && handle.node_id != *exporter) continue;
      client.disabled = true;
      client.remote_imports.erase(handle);
      notices.push_back({id, ImportInvalidated{handle, reason}});
    }
  }
  return notices;
}

Notices Model::FinishImport(ClientId client, uint64_t token, NvResult<Memory> result) {
  if (!IsSession(client)) return {};
  const auto found = pending_.find(token);
  if (found == pending_.end()) return {};
  const PendingImport pending = found->second;
  pending_.erase(found);
  Notices notices;
  const bool mappable = result && result->clique == pending.mapper;
  if (result && (!mappable || !pending.client)) notices.push_back({client, ReleaseImport{pending.handle}});
  if (!pending.client) return notices;
  if (result && !mappable) result = Refuse(NvStatus::kInvalidObject);
  if (result) clients_.at(*pending.client).remote_imports.insert(pending.handle);
  notices.push_back({*pending.client, ImportDone{token, std::move(result)}});
  return notices;
}

NvResult<Memory> Model::Duplicate(ClientId client, uint64_t counter, int channel, int importer) {
  if (!IsSession(client)) return Refuse(NvStatus::kInsufficientPermissions);
  const auto found = exports_.find(Handle{session_->node_id, counter});
  if (found == exports_.end()) return Refuse(NvStatus::kObjectNotFound);
  if (found->second.channel != channel) return Refuse(NvStatus::kInsufficientPermissions);
  ++found->second.duplicates[importer];
  return found->second.memory;
}

NvStatus Model::ReleaseDuplicate(ClientId client, uint64_t counter, int importer) {
  if (!IsSession(client)) return NvStatus::kInsufficientPermissions;
  const Handle handle{session_->node_id, counter};
  const auto found = exports_.find(handle);
  if (found == exports_.end()) return NvStatus::kObjectNotFound;
  const auto held = found->second.duplicates.find(importer);
  if (held == found->second.duplicates.end()) return NvStatus::kObjectNotFound;
  if (--held->second == 0) found->second.duplicates.erase(held);
  Forget(handle);
  return NvStatus::kOk;
}

NvResult<Notices> Model::DropNode(ClientId client, int node_id) {
  if (!IsSession(client)) return Refuse(NvStatus::kInsufficientPermissions);
  std::vector<Handle> released;
  for (auto& [handle, entry] : exports_) {
    if (entry.duplicates.erase(node_id) > 0) released.push_back(handle);
  }
  for (const Handle& handle : released) Forget(handle);
  return Disable("node " + std::to_string(node_id) + " is gone", node_id);
}

}  // namespace emu::kernel
