// libFuzzer's main for one parser: `fuzz --parser=<name> [libFuzzer's options] [folders]`.
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <string>
#include <string_view>

#include "tests/fuzz/fuzz.h"

namespace {

const cd::fuzz::Parser* chosen = nullptr;

}  // namespace

extern "C" int LLVMFuzzerInitialize(int* argc, char*** argv) {
  cd::fuzz::Silence();
  constexpr std::string_view kOption = "--parser=";
  for (int i = 1; i < *argc; ++i) {
    const std::string_view argument = (*argv)[i];
    if (!argument.starts_with(kOption)) continue;
    for (const cd::fuzz::Parser& parser : cd::fuzz::Parsers()) {
      if (parser.name == argument.substr(kOption.size())) chosen = &parser;
    }
  }
  if (chosen != nullptr) return 0;
  std::fputs("fuzz: --parser= must be one of", stderr);
  for (const cd::fuzz::Parser& parser : cd::fuzz::Parsers()) std::fprintf(stderr, " %s", std::string(parser.name).c_str());
  std::fputs("\n", stderr);
  std::exit(2);
}

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  chosen->feed({reinterpret_cast<const char*>(data), size});
  return 0;
}
