#include <nlohmann/json.hpp>

#include "src/api/claim_template.h"
#include "src/api/imex_node.h"
#include "src/base/files.h"
#include "src/plugin/claim_request.h"
#include "src/plugin/prepare_fixture.h"
#include "src/plugin/slice_publisher.h"
#include "tests/fuzz/fuzz.h"

namespace cd::fuzz {

namespace {

using nlohmann::json;

json Parse(std::string_view input) {
  return json::parse(input, nullptr, false);
}

void RequireMeta(const api::ObjectMeta& meta) {
  Require(IsSafePathComponent(meta.name), "an object's name can be part of a path");
  Require(meta.ns.empty() || IsSafePathComponent(meta.ns), "a namespace can be part of a path");
}

// What we write of an object reads the same again. `encode` gives what a writer owns.
template <typename Decode, typename Encode>
void RequireRoundTrip(const json& encoded, Decode decode, Encode encode) {
  const auto again = decode(encoded);
  Require(again.has_value(), "what was read is written so that it can be read");
  Require(encode(*again) == encoded, "nothing is lost by writing");
}

}  // namespace

void ComputeDomain(std::string_view input) {
  const auto cd = api::DecodeComputeDomain(Parse(input));
  if (!cd) return RequireField(cd.error(), input);
  RequireMeta(cd->meta);
  const auto encode = [&](const api::ComputeDomain& domain) -> json {
    return {{"metadata", api::EncodeMeta(cd->meta)}, {"status", api::EncodeComputeDomainStatus(domain.status)}};
  };
  RequireRoundTrip(encode(*cd), api::DecodeComputeDomain, encode);
  static_cast<void>(api::EncodeClaimTemplate(*cd));
}

void ImexDomain(std::string_view input) {
  const auto domain = api::DecodeImexDomain(Parse(input));
  if (!domain) return RequireField(domain.error(), input);
  RequireMeta(domain->meta);
  RequireRoundTrip(api::EncodeImexDomain(*domain), api::DecodeImexDomain, api::EncodeImexDomain);
}

void ImexNode(std::string_view input) {
  const auto node = api::DecodeImexNode(Parse(input));
  if (!node) return RequireField(node.error(), input);
  RequireMeta(node->meta);
  const auto encode = [](const api::ImexNode& n) {
    json out = api::EncodeImexNode(n);
    out["status"] = api::EncodeImexNodeStatus(n.status);
    return out;
  };
  RequireRoundTrip(encode(*node), api::DecodeImexNode, encode);
}

void ResourceClaim(std::string_view input) {
  const auto claim = api::DecodeResourceClaim(Parse(input));
  if (!claim) return RequireField(claim.error(), input);
  RequireMeta(claim->meta);
  const auto config = api::ChannelConfigOf(*claim);
  if (!config) return RequireField(config.error(), input);
  const auto request = plugin::ReadClaimRequest(*claim, claim->meta.Ref(), plugin::kNode, "computedomain-system");
  if (!request) return RequireWords(request.error(), input);
  Require(!request->devices.empty(), "a request is for a device");
  for (const plugin::ClaimDevice& device : request->devices) Require(device.pool == plugin::kNode, "a device is this node's");
  Require(!request->channel || IsUuid(request->channel->domain_id), "a channel is for the UID of a ComputeDomain");
  Require(request->channel.has_value() || claim->meta.ns == "computedomain-system", "the daemon's device is the driver's alone");
}

void OpaqueConfig(std::string_view input) {
  const auto config = api::DecodeOpaqueConfig(Parse(input));
  if (!config) return RequireField(config.error(), input);
  const auto* channel = std::get_if<api::ChannelConfig>(&*config);
  if (channel == nullptr)
    return Require(IsUuid(std::get<api::DaemonConfig>(*config).domain_id), "a ComputeDomain is named by UID");
  Require(IsUuid(channel->domain_id), "a ComputeDomain is named by UID");
  const auto again = api::DecodeOpaqueConfig(api::EncodeChannelConfig(*channel));
  Require(again && std::get<api::ChannelConfig>(*again) == *channel, "what was read is written and read the same");
}

// A slice that somebody else published for this node, whatever it says, is put right or removed, in a bounded number of calls.
void ResourceSlice(std::string_view input) {
  const json slice = Parse(input);
  if (!slice.is_object() || !slice.contains("metadata")) return;
  if (const auto meta = api::DecodeMeta(slice); !meta || !meta->ns.empty()) return;  // no server has such an object
  ManualExecutor executor;
  plugin::FakeApi server(executor);
  server.Put(api::kResourceSlices, slice);
  plugin::SlicePublisher publisher(executor, server, plugin::kNode, 32, plugin::DeviceModeChoice::kAuto, 1);
  publisher.Start();
  publisher.SetOffer("clique.1", true);
  publisher.BecomePublisher(plugin::OwnedBy({"v1", "Node", plugin::kNode, "node-uid", false}));
  executor.Advance(Duration(60'000));
  const json* ours = server.Find(api::kResourceSlices, {"", plugin::SliceName(plugin::kNode)});
  Require(ours != nullptr && (*ours)["spec"]["devices"].size() == 2, "the node's devices are published");
  Require(server.Size(api::kResourceSlices) == 1, "nothing foreign stays in the node's pool");
  Require(server.calls.size() <= 8, "putting it right takes few calls");
}

}  // namespace cd::fuzz
