#include "tests/fuzz/fuzz.h"

#include <cstdio>
#include <cstdlib>
#include <string>

#include "src/base/log.h"
#include "src/base/text.h"

namespace cd::fuzz {

const std::vector<Parser>& Parsers() {
  static const std::vector<Parser> parsers = {
      {"api_error", ApiError},
      {"checkpoint", Checkpoint},
      {"compute_domain", ComputeDomain},
      {"control_report", ControlReport},
      {"control_state", ControlState},
      {"daemon_status", DaemonStatus},
      {"desired", Desired},
#ifdef CD_FUZZ_DRA
      {"dra_request", DraRequest},
#endif
      {"hosts_file", HostsFile},
      {"imex_domain", ImexDomain},
      {"imex_node", ImexNode},
      {"kubeconfig", Kubeconfig},
      {"leader_lease", LeaderLease},
      {"conversion_review", ConversionReview},
      {"marker", Marker},
      {"mountinfo", Mountinfo},
      {"opaque_config", OpaqueConfig},
      {"printable_text", PrintableText},
      {"proc_devices", ProcDevices},
      {"resource_claim", ResourceClaim},
      {"resource_slice", ResourceSlice},
      {"watch_frames", WatchFrames},
      {"watch_stream", WatchStream},
  };
  return parsers;
}

void Silence() {
  constexpr int kAboveAll = static_cast<int>(LogLevel::kError) + 1;
  InitLog("fuzz", static_cast<LogLevel>(kAboveAll), SystemClock());
}

void Require(bool holds, std::string_view property) {
  if (holds) return;
  std::fprintf(stderr, "property does not hold: %.*s\n", static_cast<int>(property.size()), property.data());
  std::abort();
}

void RequireWords(const Error& error, std::string_view input) {
  constexpr std::size_t kWords = 1024;  // of ours around what is quoted
  Require(!error.message.empty(), "a refusal has a message: " + error.message);
  Require(error.message.size() <= input.size() + kWords, "a refusal is not much longer than its cause: " + error.message);
}

void RequireField(const Error& error, std::string_view input) {
  RequireWords(error, input);
  const std::size_t colon = error.message.find(": ");
  Require(colon != std::string::npos && colon > 0, "a refusal begins with the field: " + error.message);
}

void RequirePrintable(std::string_view text, std::size_t longest) {
  Require(text.size() <= longest, "text is within its limit");
  Require(Printable(text, longest) == text, "text is one line of valid UTF-8: " + std::string(text));
}

}  // namespace cd::fuzz
