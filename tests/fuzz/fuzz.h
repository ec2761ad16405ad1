// Every parser of bytes this project did not write, behind one signature: fed by libFuzzer (`make fuzz`) and by the replay test,
// which repeats the kept inputs in every build. A parser fails by a crash, a sanitizer's finding, or a property that does not
// hold.
#pragma once

#include <string_view>
#include <vector>

#include "src/base/result.h"

namespace cd::fuzz {

struct Parser {
  std::string_view name;  // also of its folder in corpus/
  void (*feed)(std::string_view input);
};
const std::vector<Parser>& Parsers();

// Parsers under fuzz log what they refuse: nobody reads it, and it would take most of the time.
void Silence();

// Ends the process, saying which property does not hold.
void Require(bool holds, std::string_view property);

// What was refused is told in words: not empty, and not much longer than the input, so that nobody fills logs by bad input.
void RequireWords(const Error& error, std::string_view input);
// As RequireWords, and the message begins with the field: "claims[0].grant.channel: …".
void RequireField(const Error& error, std::string_view input);
// One line of valid UTF-8.
void RequirePrintable(std::string_view text, std::size_t longest);

// The files between plugin and daemon, and what nvidia-imex-ctl prints.
void Desired(std::string_view input);
void DaemonStatus(std::string_view input);
void ControlState(std::string_view input);
void ControlReport(std::string_view input);
void HostsFile(std::string_view input);
// What the kernel shows.
void ProcDevices(std::string_view input);
void Mountinfo(std::string_view input);
// What lies on the plugin's disk.
void Checkpoint(std::string_view input);
void Marker(std::string_view input);
// Objects of the API.
void ComputeDomain(std::string_view input);
void ImexDomain(std::string_view input);
void ImexNode(std::string_view input);
void ResourceClaim(std::string_view input);
void OpaqueConfig(std::string_view input);
void ResourceSlice(std::string_view input);
void LeaderLease(std::string_view input);
// The API server's requests to the webhook.
void ConversionReview(std::string_view input);
// What the API server answers.
void ApiError(std::string_view input);
void WatchFrames(std::string_view input);
void WatchStream(std::string_view input);
void Kubeconfig(std::string_view input);
// The kubelet's requests, as protobuf; with gRPC only.
void DraRequest(std::string_view input);
// Any text on its way to a person.
void PrintableText(std::string_view input);

}  // namespace cd::fuzz
