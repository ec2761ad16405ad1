#include "emulator/imexctl/arguments.h"

#include <charconv>
#include <vector>

namespace emu::imexctl {

const char* const kUsage =
    "Usage: nvidia-imex-ctl [-i <IP> <PORT> | -u <unix socket> | -c <nvidia-imex config.cfg path>] <-n|-N|-q|-s> [-t <ms>]"
    " [-j][-H]\n"
    "  -q  state of the daemon          -N  state of the domain, once (with -c only)\n"
    "  -s  follow the daemon's state    -n  state of the domain, continuously (with -c only)\n"
    "  -j  JSON                         -H  with host names        -t  end following after so many milliseconds\n";

namespace {

bool ParseInt(const std::string& text, int* number) {
  const char* end = text.data() + text.size();
  const auto parsed = std::from_chars(text.data(), end, *number);
  return parsed.ec == std::errc() && parsed.ptr == end && *number >= 0;
}

// Walks over the words; `-x value`, `-x=value` and `--x=value` are the same.
class Words {
 public:
  Words(int argc, char** argv) : words_(argv + 1, argv + argc) {}

  bool Next(std::string* option) {
    if (at_ == words_.size()) return false;
    *option = words_[at_++];
    if (option->starts_with("--")) option->erase(0, 1);
    if (const size_t equals = option->find('='); equals != std::string::npos) {
      words_.insert(words_.begin() + static_cast<std::ptrdiff_t>(at_), option->substr(equals + 1));
      option->erase(equals);
    }
    return true;
  }

  bool Value(std::string* value) {
    if (at_ == words_.size()) return false;
    *value = words_[at_++];
    return true;
  }

 private:
  std::vector<std::string> words_;
  size_t at_ = 0;
};

struct Parsed {
  Arguments arguments;
  int actions = 0;
};

bool Choose(Action action, Parsed* parsed) {
  parsed->arguments.action = action;
  ++parsed->actions;
  return true;
}

bool ApplyTcp(Words& words, Arguments* arguments) {
  std::string ip, port;
  TcpTarget target;
  if (!words.Value(&ip) || !words.Value(&port) || !ParseInt(port, &target.port)) return false;
  target.ip = ip;
  arguments->tcp = target;
  return true;
}

bool Apply(const std::string& option, Words& words, Parsed* parsed) {
  Arguments& arguments = parsed->arguments;
  std::string value;
  if (option == "-q") return Choose(Action::kQuery, parsed);
  if (option == "-N") return Choose(Action::kDomainOnce, parsed);
  if (option == "-n") return Choose(Action::kDomainContinuously, parsed);
  if (option == "-s") return Choose(Action::kSubscribe, parsed);
  if (option == "-j") return arguments.json = true;
  if (option == "-H") return arguments.host_names = true;
  if (option == "-i") return ApplyTcp(words, &arguments);
  if (option == "-c" && words.Value(&value)) return arguments.config = value, true;
  if (option == "-u" && words.Value(&value)) return arguments.unix_path = value, true;
  if (option == "-t" && words.Value(&value)) return ParseInt(value, &arguments.timeout_ms.emplace());
  return false;
}

}  // namespace

Result<Arguments> ParseArguments(int argc, char** argv) {
  Words words(argc, argv);
  Parsed parsed;
  for (std::string option; words.Next(&option);) {
    if (option == "-h" || option == "-help") return Fail("");
    if (!Apply(option, words, &parsed)) return Fail("invalid option or value: " + option);
  }
  const Arguments& arguments = parsed.arguments;
  if (parsed.actions != 1) return Fail("exactly one of -n, -N, -q, -s is needed");
  if (arguments.config.has_value() + arguments.tcp.has_value() + arguments.unix_path.has_value() > 1) {
    return Fail("only one of -c, -i, -u is allowed");
  }
  const bool domain = arguments.action == Action::kDomainOnce || arguments.action == Action::kDomainContinuously;
  if (domain && (arguments.tcp || arguments.unix_path)) return Fail("-n and -N need a configuration file (-c)");
  return arguments;
}

}  // namespace emu::imexctl
