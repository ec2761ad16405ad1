// compute-domain-controller: leases channels, assigns slots, makes claim templates, writes statuses.
#include <cstdio>
#include <cstdlib>
#include <optional>
#include <string>
#include <thread>

#include "src/apps/command_line.h"
#include "src/base/event_loop.h"
#include "src/base/http_health.h"
#include "src/base/log.h"
#include "src/base/rng.h"
#include "src/base/stop_signals.h"
#include "src/controller/controller.h"
#include "src/kube/kubeconfig.h"
#include "src/kube/leader_election.h"
#include "src/kube/rest_client.h"

namespace {

constexpr cd::Duration kStopLimit{8'000};  // within the 10 s that SIGTERM is given

// As the plugins': auto means that the API server's version decides.
enum class DeviceMode { kAuto, kMulti, kPlain };

struct Flags {
  std::string ns;
  bool leader_election = true;
  std::string identity;
  std::string lease_name = "compute-domain-controller";
  std::uint16_t health_port = 8081;
  std::string daemon_revision;
  std::string kubeconfig;
  cd::controller::ClusterSettings cluster;
  DeviceMode device_mode = DeviceMode::kAuto;
  cd::LogLevel level = cd::LogLevel::kInfo;
};

class Program {
 public:
  Program(const Flags& flags, cd::kube::ClientConfig config)
      : signals_(loop_, [this] { Stop(); }),
        client_(loop_, std::move(config), "compute-domain-controller/" CD_VERSION, cd::RandomSeed()),
        controller_(client_, loop_,
                    {.seed = cd::RandomSeed(),
                     .daemon_revision = flags.daemon_revision,
                     .ns = flags.ns,
                     .cluster = flags.cluster,
                     .instance = flags.identity}),
        health_(loop_, [this](std::string_view path) { return cd::AnswerProbe(path, [this] { return WhyNotReady(); }); }),
        flags_(flags) {}

  int Run() {
    if (flags_.health_port != 0) {
      if (auto ok = health_.Listen(flags_.health_port); !ok) {
        cd::LogError("cannot serve probes: choose another --health-port", {{"error", ok.error().message}});
        return 1;
      }
    }
    controller_.StartInformers();
    if (flags_.leader_election) {
      StartElection();
    } else {
      Lead();
    }
    loop_.Run();
    if (worker_.joinable()) worker_.join();
    cd::LogInfo("controller has stopped");
    return 0;
  }

 private:
  void StartElection() {
    cd::kube::LeaderElectionOptions options;
    options.lease = {flags_.ns, flags_.lease_name};
    options.identity = flags_.identity;
    elector_.emplace(client_, loop_, options,
                     cd::kube::LeaderElector::Callbacks{.on_started = [this] { Lead(); },
                                                        .on_lost =
                                                            [] {
                                                              // Another one may act from now on. A request under way carries a
                                                              // precondition; nothing new may begin.
                                                              cd::LogError("leadership is lost, the process ends");
                                                              std::_Exit(1);
                                                            }},
                     cd::RandomSeed());
    elector_->Start();
  }

  void Lead() {
    if (stopping_) return;
    worker_ = std::thread([this] {
      controller_.RunWorker();
      loop_.Post([this] { Release(); });
    });
  }

  void Stop() {
    if (std::exchange(stopping_, true)) return;
    cd::LogInfo("controller stops");
    loop_.PostAfter(kStopLimit, [] {
      cd::LogWarning("a request is still under way, the process ends without releasing its lease");
      std::_Exit(0);
    });
    controller_.Stop();
    if (!worker_.joinable()) Release();
  }

  void Release() {
    if (elector_) {
      elector_->Release([this] { loop_.Stop(); });
    } else {
      loop_.Stop();
    }
  }

  std::string WhyNotReady() const {
    if (!worker_.joinable() || controller_.Synced()) return "";
    return "caches are not synced";
  }

  cd::EventLoop loop_;
  cd::StopSignals signals_;
  cd::kube::RestClient client_;
  cd::controller::Controller controller_;
  cd::HealthServer health_;
  std::optional<cd::kube::LeaderElector> elector_;
  const Flags flags_;
  std::thread worker_;
  bool stopping_ = false;
};

void AddFlags(CLI::App& app, Flags& flags) {
  app.add_option("--namespace", flags.ns, "Namespace of the driver, for the lease")->envname("CD_NAMESPACE");
  app.add_option("--leader-election", flags.leader_election, "false: act at once, for a single instance")
      ->envname("CD_LEADER_ELECTION")
      ->capture_default_str();
  app.add_option("--identity", flags.identity, "Name of this instance in the lease, the pod's name")->envname("CD_IDENTITY");
  app.add_option("--lease-name", flags.lease_name, "Name of the lease")->envname("CD_LEASE_NAME")->capture_default_str();
  app.add_option("--health-port", flags.health_port, "Port of /healthz and /readyz, 0: off")
      ->envname("CD_HEALTH_PORT")
      ->capture_default_str();
  app.add_option("--daemon-revision", flags.daemon_revision,
                 "Revision of the IMEX daemons that should run; others are replaced when their node is idle. Empty: none is")
      ->envname("CD_DAEMON_REVISION");
  app.add_option("--kubeconfig", flags.kubeconfig, "kubeconfig in JSON, empty: the pod's service account")
      ->envname("CD_KUBECONFIG");
  cd::AddCommonFlags(app, flags.level);
}

// What nodes offer, and what daemons run with.
void AddClusterFlags(CLI::App& app, Flags& flags) {
  const std::map<std::string, DeviceMode> modes{
      {"auto", DeviceMode::kAuto}, {"multi", DeviceMode::kMulti}, {"plain", DeviceMode::kPlain}};
  cd::api::ImexConfig& imex = flags.cluster.imex;
  app.add_option("--slots", flags.cluster.devices.slots, "Slots of a node, as the kubelet plugins have it")
      ->envname("CD_SLOTS")
      ->check(CLI::Range(1, 100))
      ->capture_default_str();
  app.add_option("--device-mode", flags.device_mode, "auto, multi or plain, as the kubelet plugins have it")
      ->envname("CD_DEVICE_MODE")
      ->transform(CLI::CheckedTransformer(modes));
  app.add_option("--imex-wait-for-quorum", imex.wait_for_quorum, "NONE or RECOVERY, for shared IMEX domains")
      ->envname("CD_IMEX_WAIT_FOR_QUORUM")
      ->check(CLI::IsMember({"NONE", "RECOVERY"}));
  app.add_option("--imex-node-disconnected-grace-seconds", imex.node_disconnected_grace_seconds, "-1: wait for ever")
      ->envname("CD_IMEX_NODE_DISCONNECTED_GRACE_SECONDS")
      ->check(CLI::Range(-1, 86400));
  app.add_option("--imex-log-level", imex.log_level, "0 (off) to 4 (info)")
      ->envname("CD_IMEX_LOG_LEVEL")
      ->check(CLI::Range(0, 4));
}

int Complain(const char* text) {
  std::fprintf(stderr, "%s\n", text);
  return 2;
}

}  // namespace

int main(int argc, char** argv) {
  Flags flags;
  CLI::App app("Controller of the ComputeDomain driver.");
  AddFlags(app, flags);
  AddClusterFlags(app, flags);
  if (const auto exit_code = cd::ParseFlags(app, argc, argv)) return *exit_code;
  auto config = flags.kubeconfig.empty() ? cd::kube::InClusterConfig() : cd::kube::LoadKubeconfig(flags.kubeconfig);
  if (!config) return Complain(("--kubeconfig: " + config.error().message).c_str());
  if (flags.ns.empty()) flags.ns = config->ns;
  if (flags.leader_election && flags.ns.empty()) return Complain("--namespace: missing; pass the namespace of the driver's pods");
  if (flags.leader_election && flags.identity.empty()) return Complain("--identity: missing; pass the name of this pod");
  flags.cluster.devices.plain = flags.device_mode == DeviceMode::kPlain;
  flags.cluster.devices_may_be_plain = flags.device_mode == DeviceMode::kAuto;
  cd::InitLog("compute-domain-controller", flags.level, cd::SystemClock());
  // The lease must tell two lives of one pod name apart.
  if (!flags.identity.empty()) flags.identity += "_" + std::to_string(cd::RandomSeed());
  Program program(flags, *std::move(config));
  return program.Run();
}
