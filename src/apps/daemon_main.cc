// compute-domain-daemon: supervises this node's nvidia-imex in the daemon's pod.
#include <algorithm>
#include <cctype>
#include <cstdio>

#include "src/apps/command_line.h"
#include "src/base/event_loop.h"
#include "src/base/log.h"
#include "src/base/rng.h"
#include "src/base/stop_signals.h"
#include "src/base/text.h"
#include "src/daemon/daemon.h"

namespace {

using cd::daemon::DaemonOptions;

std::string NewInstance() {
  char text[17];
  std::snprintf(text, sizeof text, "%016llx", static_cast<unsigned long long>(cd::RandomSeed()));
  return text;
}

std::string CheckAddress(const std::string& text) {
  return cd::IsIpAddress(text) ? "" : "\"" + text + "\" is not an IP address; pass the pod's (status.podIP)";
}

// It goes into files and objects that others read.
std::string CheckRevision(const std::string& text) {
  const bool plain = text.size() <= 63 &&
                     std::all_of(text.begin(), text.end(), [](unsigned char c) { return std::isalnum(c) != 0 || c == '-'; });
  return plain ? "" : "\"" + text + "\" is neither a UID nor a revision; pass up to 63 letters, digits and dashes";
}

int Run(const DaemonOptions& options, cd::LogLevel level) {
  cd::InitLog("compute-domain-daemon", level, cd::SystemClock());
  cd::EventLoop loop;
  cd::daemon::Daemon daemon(loop, options, NewInstance, [&loop] { loop.Stop(); });
  const cd::StopSignals signals(loop, [&daemon] { daemon.RequestStop(); });
  daemon.Start();
  loop.Run();
  return 0;
}

int Check(const DaemonOptions& options) {
  const cd::Status ready = cd::daemon::CheckReady(options.dir, options.pod_ip);
  if (ready) return 0;
  std::fprintf(stderr, "%s\n", ready.error().message.c_str());
  return 1;
}

}  // namespace

int main(int argc, char** argv) {
  DaemonOptions options;
  std::string dir = "/imexd", hosts = "/etc/hosts", run_dir = "/var/run/nvidia-imex";
  options.imex = "nvidia-imex";
  options.imex_ctl = "nvidia-imex-ctl";
  cd::LogLevel level = cd::LogLevel::kInfo;

  CLI::App app("Supervises nvidia-imex on one node of a ComputeDomain cluster.");
  app.require_subcommand(1);
  cd::AddCommonFlags(app, level);
  app.add_option("--dir", dir, "Directory with desired/ and status/, shared with the kubelet plugin")->envname("CD_DIR");
  app.add_option("--pod-ip", options.pod_ip, "IP address of this pod")->envname("CD_POD_IP")->check(CheckAddress);
  CLI::App* run = app.add_subcommand("run", "Supervise nvidia-imex until SIGTERM")->fallthrough();
  run->add_option("--hosts-file", hosts, "Hosts file nvidia-imex resolves names from")->envname("CD_HOSTS_FILE");
  run->add_option("--run-dir", run_dir, "Writable directory for what nvidia-imex reads")->envname("CD_RUN_DIR");
  run->add_option("--pod-uid", options.pod_uid, "UID of this pod, told to the controller")
      ->envname("CD_POD_UID")
      ->check(CheckRevision);
  run->add_option("--revision", options.revision, "Name of this pod template's state, told to the controller")
      ->envname("CD_REVISION")
      ->check(CheckRevision);
  run->add_option("--imex", options.imex, "Program nvidia-imex, by path or by name in PATH")->envname("CD_IMEX");
  run->add_option("--imex-ctl", options.imex_ctl, "Program nvidia-imex-ctl")->envname("CD_IMEX_CTL");
  app.add_subcommand("check", "Exit 0 when nvidia-imex is READY, else 1 and say why")->fallthrough();
  if (const auto exit_code = cd::ParseFlags(app, argc, argv)) return *exit_code;
  options.dir = dir;
  options.hosts_file = hosts;
  options.run_dir = run_dir;
  if (!run->parsed()) return Check(options);
  if (options.pod_ip.empty()) {
    std::fprintf(stderr, "--pod-ip is missing: pass the pod's IP address (status.podIP)\n");
    return 2;
  }
  return Run(options, level);
}
