// A node with everything a Prepare needs, for tests: temporary directories, device files, a fake API, simulated time.
#pragma once

#include <gtest/gtest.h>

#include <filesystem>
#include <fstream>
#include <memory>
#include <nlohmann/json.hpp>
#include <string>

#include "src/base/manual_executor.h"
#include "src/base/temp_dir.h"
#include "src/plugin/claim_files.h"
#include "src/plugin/fake_api.h"
#include "src/plugin/node_state.h"
#include "src/plugin/node_view.h"
#include "src/plugin/own_node.h"

namespace cd::plugin {

inline constexpr char kNode[] = "node-1";
inline constexpr char kDomain[] = "0f3a1c4e-0000-4000-8000-00000000c11c.1";
inline constexpr char kDomainUid[] = "11111111-1111-4111-8111-111111111111";
inline constexpr char kRedUid[] = "22222222-2222-4222-8222-222222222222";
inline constexpr char kBlueUid[] = "33333333-3333-4333-8333-333333333333";

// A Node that is there whenever it is asked for.
inline OwnerSource OwnedBy(api::OwnerReference owner) {
  return [owner = std::move(owner)](const OnOwner& done) { done(owner); };
}

inline std::string ClaimUid(int n) {
  return "44444444-4444-4444-8444-44444444444" + std::to_string(n);
}
inline api::ObjectRef ClaimRef(int n, const std::string& ns = "red-ns") {
  return {ns, "claim-" + std::to_string(n), ClaimUid(n)};
}

inline nlohmann::json ClaimObject(const api::ObjectRef& ref, const std::string& domain_uid,
                                  const std::string& device = "channel-0") {
  nlohmann::json result{{"request", "channel"}, {"driver", api::kDriverName}, {"pool", kNode}, {"device", device}};
  if (device == "channel-0") result["shareID"] = "aaaaaaaa-0000-4000-8000-000000000001";
  nlohmann::json devices{{"results", nlohmann::json::array({result})}, {"config", nlohmann::json::array()}};
  if (!domain_uid.empty()) {
    devices["config"].push_back({{"source", "FromClaim"},
                                 {"requests", {"channel"}},
                                 {"opaque",
                                  {{"driver", api::kDriverName},
                                   {"parameters",
                                    {{"apiVersion", "resource.nvidia.com/v1beta1"},
                                     {"kind", "ComputeDomainChannelConfig"},
                                     {"domainID", domain_uid},
                                     {"allocationMode", "Single"}}}}}});
  }
  return {{"apiVersion", "resource.k8s.io/v1"},
          {"kind", "ResourceClaim"},
          {"metadata", {{"name", ref.name}, {"namespace", ref.ns}, {"uid", ref.uid}}},
          {"status", {{"allocation", {{"devices", devices}}}}}};
}

inline api::ChannelLease Lease(int channel, const std::string& uid, const std::string& ns = "red-ns",
                               api::LeaseState state = api::LeaseState::kActive) {
  return {channel, {ns, ns.substr(0, ns.find('-')), uid}, state, true};
}

inline api::ImexDomain DomainObject(std::vector<api::ChannelLease> leases) {
  api::ImexDomain domain;
  domain.meta.name = kDomain;
  domain.meta.uid = kDomainUid;
  domain.clique_id = kDomain;
  domain.members = {{3, kNode, "10.0.0.1", "boot-1"}, {4, "node-2", "10.0.0.2", "boot-2"}};
  domain.channels = std::move(leases);
  return domain;
}

inline api::ImexNode NodeObject() {
  api::ImexNode node;
  node.meta.name = kNode;
  node.meta.uid = "55555555-5555-4555-8555-555555555555";
  node.domain = api::DomainAssignment{kDomain, kDomainUid, 3};
  return node;
}

inline api::NodeDaemon ReadyDaemon() {
  return {"10.0.0.1", "instance-1", kDomainUid, 3, api::DaemonState::kReady, {}};
}

// Everything in place for `leases`.
inline NodeView ViewOf(std::vector<api::ChannelLease> leases) {
  NodeView view;
  view.node = kNode;
  view.imex_node = std::make_shared<api::ImexNode>(NodeObject());
  view.domain = std::make_shared<api::ImexDomain>(DomainObject(std::move(leases)));
  view.daemon = ReadyDaemon();
  view.fabric = api::FabricState::kReady;
  view.clique_ids = {kDomain};
  return view;
}

inline ClaimFiles::Paths PathsIn(const TempDir& dir) {
  return {dir.path() / "cdi",   dir.path() / "plugin", dir.path() / "devices", dir.path() / "caps",
          "/run/nvidia/driver", dir.path() / "driver", dir.path() / "params"};
}

// Device numbers as the kernel driver would show them.
inline void WriteDriver(const TempDir& dir) {
  dir.Write("devices", "Character devices:\n  1 mem\n234 nvidia-caps-imex-channels\n235 nvidia-caps\n\nBlock devices:\n  8 sd\n");
  dir.Write("caps/fabric-imex-mgmt", "DeviceFileMinor: 2\nDeviceFileMode: 256\nDeviceFileModify: 1\n");
  dir.Write("params", "EnableMSI: 1\nImexChannelCount: 4\nCreateImexChannel0: 0\n");
  dir.Write("driver/usr/bin/nvidia-imex", "");
  dir.Write("driver/usr/bin/nvidia-imex-ctl", "");
}

inline std::string Slurp(const std::filesystem::path& path) {
  std::ifstream in(path);
  return {std::istreambuf_iterator<char>(in), {}};
}

}  // namespace cd::plugin
