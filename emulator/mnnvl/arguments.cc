#include "emulator/mnnvl/arguments.h"

#include <getopt.h>

#include <charconv>
#include <map>

namespace emu::mnnvl {

const char* const kUsage =
    "Usage: mnnvl channels\n"
    "       mnnvl export [--size BYTES] [--text TEXT] [--channel N] [--gpu I]\n"
    "       mnnvl import HANDLE [--hold] [--channel N] [--gpu I]\n"
    "\n"
    "channels  print the IMEX channels this container can use\n"
    "export    export memory holding TEXT, print its handle and keep it until SIGTERM\n"
    "import    map the memory behind HANDLE and print its text; --hold keeps the mapping until SIGTERM and reports its loss\n"
    "--channel N  subscribe to channel N; default: the lowest in /dev/nvidia-caps-imex-channels\n"
    "\n"
    "Exit codes: 0 success, 2 usage, 10 not permitted (no channel, or not the exporter's), 11 not supported (no fabric, or\n"
    "no nvidia-imex), 12 subscribed to another channel, 14 invalid argument, 15 no such memory, 16 not in one clique,\n"
    "17 blocked or disabled, 19 exporter's node unreachable, 20 held import lost, 21 no kernel driver, 1 other\n";

namespace {

template <class Number>
bool ParseNumber(const std::string& text, Number* number) {
  const char* end = text.data() + text.size();
  const auto parsed = std::from_chars(text.data(), end, *number);
  return parsed.ec == std::errc() && parsed.ptr == end;
}

Result<void> ApplyOption(int option, Arguments* arguments) {
  const std::string value = optarg != nullptr ? optarg : "";
  bool ok = true;
  switch (option) {
    case 'c':
      ok = ParseNumber(value, &arguments->channel.emplace());
      break;
    case 'g':
      ok = ParseNumber(value, &arguments->gpu);
      break;
    case 's':
      ok = ParseNumber(value, &arguments->size);
      break;
    case 't':
      arguments->text = value;
      break;
    case 'H':
      arguments->hold = true;
      break;
    case 'h':
      arguments->command = Command::kHelp;
      break;
    default:
      return Fail("unknown option");
  }
  if (!ok) return Fail("\"" + value + "\" is not a number this option takes");
  return {};
}

}  // namespace

Result<Arguments> ParseArguments(int argc, char** argv) {
  static const std::map<std::string, Command> kCommands = {{"channels", Command::kChannels},
                                                           {"export", Command::kExport},
                                                           {"import", Command::kImport},
                                                           {"--help", Command::kHelp},
                                                           {"-h", Command::kHelp}};
  const auto command = argc > 1 ? kCommands.find(argv[1]) : kCommands.end();
  if (command == kCommands.end()) return Fail("a command is needed: channels, export or import");
  Arguments arguments;
  arguments.command = command->second;
  const option known[] = {{"channel", required_argument, nullptr, 'c'},
                          {"gpu", required_argument, nullptr, 'g'},
                          {"size", required_argument, nullptr, 's'},
                          {"text", required_argument, nullptr, 't'},
                          {"hold", no_argument, nullptr, 'H'},
                          {"help", no_argument, nullptr, 'h'},
                          {}};
  optind = 2;
  for (int c; (c = ::getopt_long(argc, argv, "h", known, nullptr)) != -1;) {
    const auto applied = ApplyOption(c, &arguments);
    if (!applied) return tl::unexpected(applied.error());
  }
  const int operands = argc - optind;
  if (arguments.command == Command::kImport) {
    if (operands != 1) return Fail("import needs one HANDLE");
    arguments.handle = argv[optind];
  } else if (operands != 0 && arguments.command != Command::kHelp) {
    return Fail(std::string("unexpected argument ") + argv[optind]);
  }
  return arguments;
}

}  // namespace emu::mnnvl
