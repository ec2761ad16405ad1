// mnnvl-kernel: the kernel driver of one emulated node.
#include <getopt.h>
#include <signal.h>

#include <charconv>
#include <cstdio>
#include <cstring>
#include <filesystem>

#include "emulator/kernel/server.h"
#include "emulator/node/node_state.h"

namespace {

constexpr const char* kUsage =
    "Usage: mnnvl-kernel --dir DIR --major N --caps-major M\n"
    "  --dir DIR       the node's directory (with node.json); the socket and /proc files appear there\n"
    "  --major N       character major of the IMEX channel devices on this node\n"
    "  --caps-major M  character major of the capability devices\n";

bool ParseMajor(const char* text, unsigned* major) {
  const char* end = text + std::strlen(text);
  const auto parsed = std::from_chars(text, end, *major);
  return parsed.ec == std::errc() && parsed.ptr == end && *major > 0 && *major < 4096;
}

bool ParseArguments(int argc, char** argv, emu::kernel::Options* options, bool* help) {
  const option known[] = {{"dir", required_argument, nullptr, 'd'},
                          {"major", required_argument, nullptr, 'm'},
                          {"caps-major", required_argument, nullptr, 'c'},
                          {"help", no_argument, nullptr, 'h'},
                          {}};
  for (int c; (c = ::getopt_long(argc, argv, "h", known, nullptr)) != -1;) {
    if (c == 'd')
      options->directory = optarg;
    else if (c == 'm' && ParseMajor(optarg, &options->major))
      continue;
    else if (c == 'c' && ParseMajor(optarg, &options->caps_major))
      continue;
    else if (c == 'h')
      *help = true;
    else
      return false;
  }
  return *help || (optind == argc && !options->directory.empty() && options->major != 0 && options->caps_major != 0);
}

int Complain(const emu::Error& error) {
  std::fprintf(stderr, "mnnvl-kernel: %s\n", error.message.c_str());
  return 1;
}

}  // namespace

int main(int argc, char** argv) {
  emu::kernel::Options options;
  bool help = false;
  if (!ParseArguments(argc, argv, &options, &help)) {
    std::fputs(kUsage, stderr);
    return 2;
  }
  if (help) {
    std::fputs(kUsage, stdout);
    return 0;
  }
  ::setvbuf(stderr, nullptr, _IOLBF, 0);
  // Absolute: a relative path would follow the caller's working directory only by luck.
  options.directory = std::filesystem::absolute(options.directory);
  const auto node = emu::ReadNodeState(options.directory);
  if (!node) return Complain(node.error());

  emu::EventLoop loop;
  loop.OnSignals({SIGTERM, SIGINT}, [&](int) { loop.Stop(0); });
  emu::kernel::Server server(loop, options, node->channel_count);
  const auto started = server.Start();
  if (!started) return Complain(started.error());
  std::fprintf(stderr, "mnnvl-kernel: node %s, %d channels, majors %u and %u\n", node->node.c_str(), node->channel_count,
               options.major, options.caps_major);
  return loop.Run();
}
