// What the kernel driver of one node knows about IMEX channels, exports, imports and the session of nvidia-imex.
//
// Pure: no I/O, no clock. Whether a process possesses a channel is decided by the caller (possession.h) before it comes
// here; what others must be told comes back as notices.
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <set>
#include <string>
#include <tl/expected.hpp>
#include <variant>
#include <vector>

#include "emulator/node/handle.h"
#include "emulator/node/nv_status.h"

namespace emu::kernel {

// One connection, as the driver's "RM client": it ends with the process that opened it.
using ClientId = uint64_t;

template <class T>
using NvResult = tl::expected<T, NvStatus>;

// NVLink partition of a GPU; memory can be mapped only between GPUs of one.
struct Clique {
  std::string cluster;
  uint32_t id = 0;
  bool operator==(const Clique&) const = default;
};

// What an importer gets of an export.
struct Memory {
  Clique clique;
  uint64_t size = 0;
  std::string text;  // stands for the content
  bool operator==(const Memory&) const = default;
};

// --- Notices: effects of a call on others than its caller ---
struct ForwardImport {  // to nvidia-imex: ask the exporter's node
  uint64_t token;
  Handle handle;
  int channel;
};
struct ImportDone {  // to the client whose remote import was pending
  uint64_t token;
  NvResult<Memory> result;
};
struct ReleaseImport {  // to nvidia-imex: the exporter's node may release its duplicate
  Handle handle;
};
struct ImportInvalidated {  // to a client: its mapping is gone, and so is its right to make new ones
  Handle handle;
  std::string reason;
};
struct Notice {
  ClientId to;
  std::variant<ForwardImport, ImportDone, ReleaseImport, ImportInvalidated> what;
};
using Notices = std::vector<Notice>;

class Model {
 public:
  explicit Model(int channel_count) : channel_count_(channel_count) {}

  void AddClient(ClientId client);
  Notices RemoveClient(ClientId client);

  // `possessed`: the caller's container really has the device of this channel. Once for life; the same again is fine.
  NvStatus Subscribe(ClientId client, int channel, bool possessed);
  NvResult<Handle> Export(ClientId client, Memory memory);

  // Immediate for memory of this node. Otherwise pending: ImportDone with the token follows when nvidia-imex answered.
  struct Pending {
    uint64_t token;
    Notices notices;
  };
  NvResult<std::variant<Memory, Pending>> Import(ClientId client, const Handle& handle, const Clique& mapper);

  // --- nvidia-imex ---
  NvStatus OpenSession(ClientId client, int node_id, bool capable);
  // A stop in good order: duplicates are given back first, so nothing dangles. The importers suffer all the same.
  Notices CloseSession(ClientId client);
  Notices FinishImport(ClientId client, uint64_t token, NvResult<Memory> result);
  // Takes a duplicate of a local export for a remote importer. The channel is the importer's as its node reports it: the
  // exporter's kernel has to trust nvidia-imex here.
  NvResult<Memory> Duplicate(ClientId client, uint64_t counter, int channel, int importer);
  NvStatus ReleaseDuplicate(ClientId client, uint64_t counter, int importer);
  // A node was lost for good: what it exported to us becomes invalid, what it imported from us is released.
  NvResult<Notices> DropNode(ClientId client, int node_id);

  int channel_count() const { return channel_count_; }
  bool HasSession() const { return session_.has_value(); }
  // Fabric allocations are refused after nvidia-imex vanished while other nodes used our memory, until it is back.
  bool AllocationBlocked() const { return allocation_blocked_; }
  std::optional<int> SubscribedChannel(ClientId client) const;

 private:
  struct Client {
    std::optional<int> channel;
    bool disabled = false;
    std::multiset<Handle> remote_imports;
    std::multiset<Handle> local_imports;
  };
  struct Exported {
    int channel = 0;
    Memory memory = {};
    bool owned = true;  // its client still lives
    int local_references = 0;
    std::map<int, int> duplicates = {};  // importer node -> count; held by nvidia-imex
    bool Unused() const { return !owned && local_references == 0 && duplicates.empty(); }
  };
  struct PendingImport {
    std::optional<ClientId> client;  // empty: ended meanwhile; what arrives for it goes back at once
    Handle handle;
    Clique mapper;
  };
  struct Session {
    ClientId client;
    int node_id;
  };

  bool IsSession(ClientId client) const { return session_ && session_->client == client; }
  NvResult<Memory> ImportLocally(Client& client, const Handle& handle, const Clique& mapper);
  void DropLocalReference(const Handle& handle);
  void Forget(const Handle& handle);
  Notices LoseSession();
  Notices Disable(const std::string& reason, std::optional<int> exporter);

  const int channel_count_;
  std::map<ClientId, Client> clients_;
  std::map<Handle, Exported> exports_;
  std::map<Handle, ClientId> owners_;
  std::map<uint64_t, PendingImport> pending_;
  std::optional<Session> session_;
  bool allocation_blocked_ = false;
  uint64_t next_counter_ = 1;
  uint64_t next_token_ = 1;
};

}  // namespace emu::kernel
