// compute-domain-kubelet-plugin: the DRA driver of one node.
#include <csignal>
#include <cstdlib>
#include <map>
#include <thread>

#include "src/apps/command_line.h"
#include "src/base/event_loop.h"
#include "src/base/files.h"
#include "src/base/http_health.h"
#include "src/base/log.h"
#include "src/base/rng.h"
#include "src/kube/config.h"
#include "src/kube/kubeconfig.h"
#include "src/kube/rest_client.h"
#include "src/plugin/dra_server.h"
#include "src/plugin/plugin.h"

namespace {

using cd::plugin::DeviceModeChoice;

struct Flags {
  cd::plugin::PluginOptions plugin;
  std::string pod_uid;
  std::string registry_dir = "/var/lib/kubelet/plugins_registry";
  std::string plugin_dir = "/var/lib/kubelet/plugins/compute-domain.nvidia.com";
  std::string cdi_dir = "/var/run/cdi";
  std::string driver_root = "/";
  std::string driver_root_mount;
  std::string proc_devices = "/proc/devices";
  std::string capabilities_dir = "/proc/driver/nvidia/capabilities";
  std::string driver_parameters = "/proc/driver/nvidia/params";
  std::string boot_id_file = "/proc/sys/kernel/random/boot_id";
  std::string proc_root = "/proc";
  std::string kubeconfig;
  int health_port = 8082;
  cd::LogLevel log_level = cd::LogLevel::kInfo;
};

void Define(CLI::App& app, Flags& flags) {
  const std::map<std::string, DeviceModeChoice> modes{
      {"auto", DeviceModeChoice::kAuto}, {"multi", DeviceModeChoice::kMulti}, {"plain", DeviceModeChoice::kPlain}};
  const auto option = [&](const char* flag, auto& value, const char* text, const char* env) {
    return app.add_option(flag, value, text)->envname(env)->capture_default_str();
  };
  option("--node-name", flags.plugin.node, "Name of this Node", "CD_NODE_NAME")->required();
  option("--pod-uid", flags.pod_uid, "UID of this pod; sockets carry it, so that two instances can run during an update",
         "CD_POD_UID");
  option("--namespace", flags.plugin.daemon_namespace, "Namespace of the driver; only its claims get the daemon device",
         "CD_NAMESPACE")
      ->required();
  option("--registry-dir", flags.registry_dir, "The kubelet's plugin registry", "CD_REGISTRY_DIR");
  option("--plugin-dir", flags.plugin_dir, "Sockets and state; the same path inside and outside of the container",
         "CD_PLUGIN_DIR");
  option("--cdi-dir", flags.cdi_dir, "CDI specs; the same path inside and outside of the container", "CD_CDI_DIR");
  option("--driver-root", flags.driver_root, "The NVIDIA driver's root as the host sees it", "CD_DRIVER_ROOT");
  option("--driver-root-mount", flags.driver_root_mount, "The same as this process sees it; empty: the same path",
         "CD_DRIVER_ROOT_MOUNT");
  option("--proc-devices", flags.proc_devices, "/proc/devices of the host", "CD_PROC_DEVICES");
  option("--capabilities-dir", flags.capabilities_dir, "The kernel driver's capabilities", "CD_CAPABILITIES_DIR");
  option("--driver-parameters", flags.driver_parameters, "The kernel driver's parameters as it shows them, one a line",
         "CD_DRIVER_PARAMETERS");
  option("--boot-id-file", flags.boot_id_file, "The host's boot ID", "CD_BOOT_ID_FILE");
  option("--proc-root", flags.proc_root, "/proc of the host's PID namespace", "CD_PROC_ROOT");
  option("--slots", flags.plugin.slots, "Pods with a channel on this node at a time", "CD_SLOTS")->check(CLI::Range(1, 100));
  option("--device-mode", flags.plugin.device_mode, "auto, multi or plain", "CD_DEVICE_MODE")
      ->transform(CLI::CheckedTransformer(modes));
  option("--health-port", flags.health_port, "HTTP /healthz and /readyz; 0: off", "CD_HEALTH_PORT")->check(CLI::Range(0, 65535));
  option("--kubeconfig", flags.kubeconfig, "For running outside of a pod", "CD_KUBECONFIG");
  cd::AddCommonFlags(app, flags.log_level);
}

std::string Trimmed(std::string text) {
  text.erase(text.find_last_not_of(" \n") + 1);
  return text;
}

// Signals go to the main thread, which waits for them; blocked before any other thread starts.
sigset_t BlockStopSignals() {
  sigset_t signals;
  sigemptyset(&signals);
  sigaddset(&signals, SIGTERM);
  sigaddset(&signals, SIGINT);
  pthread_sigmask(SIG_BLOCK, &signals, nullptr);
  return signals;
}

int Fatal(const cd::Error& error, const char* what) {
  cd::LogError(what, {{"error", error.message}});
  return 1;
}

cd::Result<cd::plugin::PluginOptions> Resolve(const Flags& flags) {
  const auto boot_id = cd::ReadKernelFile(flags.boot_id_file, 256);
  if (!boot_id) return cd::Fail(cd::Annotate(boot_id.error(), "--boot-id-file"));
  cd::plugin::PluginOptions options = flags.plugin;
  options.boot_id = Trimmed(*boot_id);
  options.seed = cd::RandomSeed();
  options.instance = (flags.pod_uid.empty() ? "plugin" : flags.pod_uid) + "-" + std::to_string(cd::RandomSeed());
  options.paths = {flags.cdi_dir,          flags.plugin_dir,
                   flags.proc_devices,     flags.capabilities_dir,
                   flags.driver_root,      flags.driver_root_mount.empty() ? flags.driver_root : flags.driver_root_mount,
                   flags.driver_parameters};
  options.proc_root = flags.proc_root;
  return options;
}

std::string WhyNotReady(const cd::plugin::Plugin& plugin, const cd::plugin::DraServer& server) {
  if (!server.Registered()) return "not registered with the kubelet yet";
  return plugin.Published() ? "" : "the node's ResourceSlice is not published yet";
}

cd::Status ServeProbes(cd::HealthServer& health, int port) {
  if (port == 0) return {};
  return health.Listen(static_cast<std::uint16_t>(port));
}

// What still uses the loop is destroyed by the caller afterwards.
int EndLoop(cd::EventLoop& loop, std::thread& thread, int exit_code) {
  loop.Stop();
  thread.join();
  return exit_code;
}

int Run(const Flags& flags, const sigset_t& signals) {
  const auto options = Resolve(flags);
  if (!options) return Fatal(options.error(), "cannot start");
  const auto sockets = cd::plugin::NameSockets(cd::api::kDriverName, flags.pod_uid, flags.plugin_dir, flags.registry_dir);
  if (!sockets) return Fatal(sockets.error(), "cannot start");
  auto config = flags.kubeconfig.empty() ? cd::kube::InClusterConfig() : cd::kube::LoadKubeconfig(flags.kubeconfig);
  if (!config) return Fatal(config.error(), "cannot reach the API server");

  cd::EventLoop loop;
  std::function<std::string()> why_not_ready = [] { return "not started yet"; };  // loop's thread
  cd::HealthServer health(loop, [&](std::string_view path) { return cd::AnswerProbe(path, why_not_ready); });
  // A plugin that nobody can probe is killed for it within a minute: better now, before anything is written.
  if (const cd::Status served = ServeProbes(health, flags.health_port); !served) {
    return Fatal(served.error(), "cannot serve probes: choose another --health-port");
  }
  cd::kube::RestClient client(loop, std::move(*config), std::string("compute-domain-kubelet-plugin/") + CD_VERSION,
                              options->seed);
  auto plugin = cd::plugin::Plugin::Create(loop, client, *options);
  if (!plugin) return Fatal(plugin.error(), "cannot start");
  std::thread loop_thread([&loop] { loop.Run(); });
  auto server = cd::plugin::DraServer::Start(
      {cd::api::kDriverName, *sockets, cd::Duration(45'000), [&] { (*plugin)->OnRegistered(); }}, loop, (*plugin)->handler());
  if (!server) return EndLoop(loop, loop_thread, Fatal(server.error(), "cannot serve the kubelet"));

  loop.Post([&] {
    (*plugin)->Start([&](auto devices) { (*server)->SetHealth(std::move(devices)); });
    why_not_ready = [&] { return WhyNotReady(**plugin, **server); };
  });
  int signal = 0;
  sigwait(&signals, &signal);
  cd::LogInfo("stopping", {{"signal", signal}});
  (*server)->Stop();
  return EndLoop(loop, loop_thread, 0);
}

}  // namespace

int main(int argc, char** argv) {
  Flags flags;
  CLI::App app("The DRA driver of one node of a ComputeDomain cluster.");
  Define(app, flags);
  if (const auto exit_code = cd::ParseFlags(app, argc, argv)) return *exit_code;
  ::setenv("GRPC_VERBOSITY", "NONE", 0);  // its lines are not ours; what fails is logged by us
  const sigset_t signals = BlockStopSignals();
  cd::InitLog("compute-domain-kubelet-plugin", flags.log_level, cd::SystemClock());
  return Run(flags, signals);
}
