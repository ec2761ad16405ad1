// A real kube-apiserver with its etcd, on loopback, in a temporary directory: what the tests of this folder talk to.
#pragma once

#include <sys/types.h>

#include <filesystem>
#include <functional>
#include <future>
#include <memory>
#include <string>
#include <thread>
#include <vector>

#include "src/base/event_loop.h"
#include "src/kube/client.h"
#include "src/kube/config.h"
#include "src/kube/rest_client.h"

namespace cd::integration {

// A child that dies with its owner, and with the thread that made it. Output goes to `log`.
class ChildProcess {
 public:
  ChildProcess(const std::vector<std::string>& arguments, const std::filesystem::path& log);
  ~ChildProcess();
  ChildProcess(const ChildProcess&) = delete;
  ChildProcess& operator=(const ChildProcess&) = delete;

  bool Running();

 private:
  pid_t pid_ = -1;
};

// One per test binary; starting takes seconds. The binaries are found in the folder named by CD_KUBE_BIN.
class Cluster {
 public:
  static Cluster& Get();
  ~Cluster();

  kube::ClientConfig Config() const;
  void KillApiServer();
  // Returns when the server answers that it is ready.
  void StartApiServer();
  // Forgets every revision older than the present one, so that watches from earlier ones are refused.
  void CompactEtcd();
  const std::filesystem::path& directory() const { return directory_; }

 private:
  Cluster();
  void StartEtcd();
  // Body of the answer with status 200, else empty.
  std::string Fetch(const std::string& url, const std::string& body = "") const;

  std::filesystem::path binaries_;
  std::filesystem::path directory_;
  int etcd_port_, etcd_peer_port_, api_port_;
  std::unique_ptr<ChildProcess> etcd_, api_server_;
};

// An event loop on a thread of its own with a client on it.
class Connection {
 public:
  explicit Connection(kube::ClientConfig config = Cluster::Get().Config());
  ~Connection();

  Result<nlohmann::json> Call(kube::ApiRequest request);
  // Runs `task` on the loop's thread and waits for it.
  void OnLoop(const Task& task);

  EventLoop loop;
  std::unique_ptr<kube::RestClient> client;

 private:
  std::thread thread_;
};

// Waits until `condition` holds, at most `limit`; what it returns is the last answer. The condition runs on the calling thread.
bool Eventually(const std::function<bool()>& condition, std::chrono::seconds limit = std::chrono::seconds(60));

// A name no other test uses.
std::string UniqueName(const std::string& prefix);

extern const api::ResourceType kConfigMaps;
extern const api::ResourceType kNamespaces;
extern const api::ResourceType kCrds;

// A namespace of its own, made through `connection`.
std::string MakeNamespace(Connection& connection);

// Server-side apply of a YAML file with one object.
Status ApplyFile(Connection& connection, const api::ResourceType& type, const std::string& name,
                 const std::filesystem::path& file);

}  // namespace cd::integration
