// nvidia-imex
#include <fcntl.h>
#include <getopt.h>
#include <unistd.h>

#include <charconv>
#include <csignal>
#include <cstdio>
#include <cstring>

#include "emulator/base/files.h"
#include "emulator/imex/daemon.h"
#include "emulator/node/node_state.h"

namespace emu::imex {
namespace {

constexpr const char* kUsage =
    "Usage: nvidia-imex [-c CONFIG] [-p PORT] [--nogpu]\n"
    "  -c, --config FILE  configuration, default /etc/nvidia-imex/config.cfg\n"
    "  -p, --port N       port for other nodes, instead of SERVER_PORT\n"
    "  --nogpu            run without a GPU driver\n"
    "  -h, --help\n";

struct Arguments {
  std::string config = "/etc/nvidia-imex/config.cfg";
  int port = -1;  // -1: as configured
  bool gpu = true;
  bool help = false;
};

bool ParseArguments(int argc, char** argv, Arguments* arguments) {
  const option known[] = {{"config", required_argument, nullptr, 'c'},
                          {"port", required_argument, nullptr, 'p'},
                          {"nogpu", no_argument, nullptr, 'n'},
                          {"help", no_argument, nullptr, 'h'},
                          {}};
  // "long only": -nogpu is accepted as well as --nogpu.
  for (int c; (c = ::getopt_long_only(argc, argv, "c:p:h", known, nullptr)) != -1;) {
    if (c == 'c')
      arguments->config = optarg;
    else if (c == 'n')
      arguments->gpu = false;
    else if (c == 'h')
      arguments->help = true;
    else if (c == 'p') {
      const char* end = optarg + std::strlen(optarg);
      const auto parsed = std::from_chars(optarg, end, arguments->port);
      if (parsed.ec != std::errc() || parsed.ptr != end || arguments->port < 0 || arguments->port > 65535) return false;
    } else {
      return false;
    }
  }
  return optind == argc;
}

LogOptions LogOptionsOf(const Config& config) {
  return {config.log_level,         config.log_file,      config.log_append,
          config.log_max_megabytes, config.log_rotations, config.log_syslog};
}

Result<Startup> Prepare(const Config& config, const Arguments& arguments) {
  const auto checked = CheckConfig(config);
  if (!checked) return tl::unexpected(checked.error());
  const auto nodes = ReadFile(config.node_file);
  if (!nodes) return Fail("Failed to read node configuration file " + config.node_file + ": " + nodes.error().message);
  const NodeMap map = ParseNodeMap(*nodes);
  const std::vector<std::string> addresses =
      config.bind_ip.empty() ? InterfaceAddresses() : std::vector<std::string>{config.bind_ip};
  const auto own = FindOwnEntry(map, addresses, Resolve);
  if (!own) {
    return Fail("No matching network interface found for any IP addresses in the node configuration file " + config.node_file +
                ".");
  }
  const std::string directory = NodeDirectory();
  if (!arguments.gpu) return Startup{config, map, *own, "NO_GPU", false, directory};
  const auto node = ReadNodeState(directory);
  if (!node) return Fail("No GPU driver: " + node.error().message);
  return Startup{config, map, *own, node->imex_version, true, directory};
}

void LogOptionsInForce(Log& log, const Startup& startup) {
  const Config& config = startup.config;
  if (!startup.gpu) log.Info("IMEX version NO_GPU is running in NO GPU MODE");
  log.Info("IMEX version " + startup.version + " is running with the following configuration options");
  log.Info("Logging level = " + std::to_string(config.log_level));
  log.Info("Logging file name/path = " + config.log_file);
  log.Info("Append to log file = " + std::to_string(config.log_append));
  log.Info("Max Log file size = " + std::to_string(config.log_max_megabytes) + " (MBs)");
  log.Info("IMEX library communication bind port = " + std::to_string(config.server_port));
  log.Info("Identified this node as ID " + std::to_string(startup.own.id) + ", using bind IP of '" + startup.own.ip +
           "', and network interface of " + InterfaceOf(startup.own.ip));
}

// In the background the parent stays until the child is ready or gave up, so that its exit code means something to a
// service manager. Returns in the child, with the descriptor through which it reports.
Result<UniqueFd> Daemonize() {
  int ends[2];
  if (::pipe2(ends, O_CLOEXEC) != 0) return FailErrno("cannot make a pipe");
  UniqueFd reader(ends[0]);
  UniqueFd writer(ends[1]);
  const pid_t child = ::fork();
  if (child < 0) return FailErrno("cannot fork");
  if (child > 0) {
    writer.Close();
    char byte;
    ::_exit(::read(reader.get(), &byte, 1) == 1 ? 0 : 1);
  }
  ::setsid();
  return writer;
}

int Run(Config config, const Arguments& arguments, const std::vector<std::string>& warnings) {
  if (arguments.port >= 0) config.server_port = arguments.port;
  UniqueFd parent;
  if (config.daemonize) {
    auto reporting = Daemonize();
    if (!reporting) {
      std::fprintf(stderr, "%s\n", reporting.error().message.c_str());
      return 1;
    }
    parent = *std::move(reporting);
  }
  Log log(LogOptionsOf(config));
  for (const std::string& warning : warnings) log.Warning(warning);
  EventLoop loop;
  std::unique_ptr<Daemon> daemon;
  // Before any thread starts, so that all threads leave the signals to the loop.
  loop.OnSignals({SIGTERM, SIGINT, SIGQUIT, SIGHUP, SIGUSR1}, [&](int number) { daemon->OnSignal(number); });
  auto startup = Prepare(config, arguments);
  if (!startup) {
    log.Write(Level::kCritical, startup.error().message);
    return 1;
  }
  LogOptionsInForce(log, *startup);
  daemon = std::make_unique<Daemon>(loop, log, *std::move(startup), [&] {
    if (!parent.valid()) return;
    [[maybe_unused]] const ssize_t told = ::write(parent.get(), "r", 1);
    parent.Close();
  });
  const auto started = daemon->Start();
  if (!started) {
    log.Write(Level::kCritical, started.error().message);
    return 1;
  }
  return loop.Run();
}

}  // namespace
}  // namespace emu::imex

int main(int argc, char** argv) {
  emu::imex::Arguments arguments;
  if (!emu::imex::ParseArguments(argc, argv, &arguments)) {
    std::fputs(emu::imex::kUsage, stderr);
    return 1;
  }
  if (arguments.help) {
    std::fputs(emu::imex::kUsage, stdout);
    return 0;
  }
  const auto text = emu::ReadFile(arguments.config);
  if (!text) {
    std::fprintf(stderr, "Failed to read configuration file: %s\n", text.error().message.c_str());
    return 1;
  }
  const auto parsed = emu::imex::ParseConfig(*text);
  if (!parsed) {
    std::fprintf(stderr, "%s: %s\n", arguments.config.c_str(), parsed.error().message.c_str());
    return 1;
  }
  return emu::imex::Run(parsed->config, arguments, parsed->warnings);
}
