// nvidia-imex-ctl
#include <csignal>
#include <cstdio>
#include <nlohmann/json.hpp>

#include "emulator/base/files.h"
#include "emulator/imex/log.h"
#include "emulator/imexctl/arguments.h"
#include "emulator/imexctl/domain.h"
#include "emulator/imexctl/query.h"

namespace emu::imexctl {
namespace {

using nlohmann::json;

constexpr const char* kDefaultConfig = "/etc/nvidia-imex/config.cfg";
constexpr int kExitNoConfig = 255;
constexpr int kExitUnavailable = 14;
constexpr int kUnavailable = 14;  // gRPC's code for "nobody there"
constexpr Milliseconds kAnswerTimeout{5000};
constexpr Milliseconds kRefresh{1000};

int NoConfig(const std::string& why) {
  std::fprintf(stderr, "Failed to read node configuration file: %s\n", why.c_str());
  return kExitNoConfig;
}

int Unavailable() {
  std::fprintf(stderr, "Query Status returned error code: %d\n", kUnavailable);
  return kExitUnavailable;
}

// -q
int QueryOnce(const Arguments& arguments, const std::optional<imex::Config>& config) {
  EventLoop loop;
  std::string state;
  const auto query = QueryTarget(
      loop, arguments, config, "status",
      [&](const json& answer) {
        state = answer.at("state").get<std::string>();
        loop.Stop(0);
      },
      [&](const std::string&) { loop.Stop(0); });
  if (!query) return Unavailable();
  const auto timeout = loop.After(kAnswerTimeout, [&] { loop.Stop(0); });
  loop.Run();
  if (state.empty()) return Unavailable();
  std::printf("%s\n", state.c_str());
  return 0;
}

// -s
int Subscribe(const Arguments& arguments, const std::optional<imex::Config>& config) {
  EventLoop loop;
  std::string state;
  const auto query = QueryTarget(
      loop, arguments, config, "subscribe",
      [&](const json& answer) {
        if (state.empty()) std::printf("stopAtReady: 0\nkeepGoing: 1\n");
        state = answer.at("state").get<std::string>();
        std::printf("%s\n", state.c_str());
        std::fflush(stdout);
      },
      [&](const std::string&) { loop.Stop(0); });
  if (!query) return Unavailable();
  EventLoop::Timer end;
  if (arguments.timeout_ms) end = loop.After(Milliseconds(*arguments.timeout_ms), [&] { loop.Stop(0); });
  loop.Run();
  if (state.empty()) return Unavailable();
  std::printf("Finishing subscription\n%s\n", state.c_str());
  return 0;
}

std::string Render(const Arguments& arguments, const Domain& domain, const Domain* previous) {
  const std::string now = imex::Timestamp();
  return arguments.json ? RenderJson(domain, previous, arguments.host_names, now) : RenderText(domain, arguments.host_names, now);
}

// -N and -n
int ShowDomain(const Arguments& arguments, const imex::Config& config) {
  const auto nodes = ReadFile(config.node_file);
  if (!nodes) return NoConfig(nodes.error().message);
  Domain shown = AskDomain(config, *nodes);
  std::fputs(Render(arguments, shown, nullptr).c_str(), stdout);
  while (arguments.action == Action::kDomainContinuously) {
    std::fflush(stdout);
    EventLoop pause;
    const auto timer = pause.After(kRefresh, [&] { pause.Stop(0); });
    pause.Run();
    Domain next = AskDomain(config, *nodes);
    if (std::fputs(Render(arguments, next, &shown).c_str(), stdout) < 0) return 1;
    shown = std::move(next);
  }
  return 0;
}

int Run(const Arguments& arguments) {
  std::optional<imex::Config> config;
  if (!arguments.tcp && !arguments.unix_path) {
    const auto text = ReadFile(arguments.config.value_or(kDefaultConfig));
    if (!text) return NoConfig(text.error().message);
    const auto parsed = imex::ParseConfig(*text);
    if (!parsed) return NoConfig(parsed.error().message);
    config = parsed->config;
  }
  switch (arguments.action) {
    case Action::kQuery:
      return QueryOnce(arguments, config);
    case Action::kSubscribe:
      return Subscribe(arguments, config);
    case Action::kDomainOnce:
    case Action::kDomainContinuously:
      return ShowDomain(arguments, *config);
  }
  return 1;
}

}  // namespace
}  // namespace emu::imexctl

int main(int argc, char** argv) {
  const auto arguments = emu::imexctl::ParseArguments(argc, argv);
  if (!arguments) {
    const std::string& why = arguments.error().message;
    std::fprintf(stderr, "%s%s%s", why.c_str(), why.empty() ? "" : "\n", emu::imexctl::kUsage);
    return 1;
  }
  return emu::imexctl::Run(*arguments);
}
