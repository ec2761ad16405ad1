#include "src/api/compute_domain.h"

#include "src/api/references.h"
#include "src/base/json_reader.h"

namespace cd::api {

using nlohmann::json;

namespace {

constexpr std::array kIsolationModes{EnumName<IsolationMode>{"Channel", IsolationMode::kChannel},
                                     EnumName<IsolationMode>{"Domain", IsolationMode::kDomain}};
constexpr std::array kPartitionPolicies{EnumName<PartitionPolicy>{"Any", PartitionPolicy::kAny},
                                        EnumName<PartitionPolicy>{"Single", PartitionPolicy::kSingle}};
constexpr std::array kFabricPolicies{EnumName<FabricPolicy>{"Required", FabricPolicy::kRequired},
                                     EnumName<FabricPolicy>{"Optional", FabricPolicy::kOptional}};
constexpr std::array kOnTimeouts{EnumName<OnTimeout>{"Fail", OnTimeout::kFail},
                                 EnumName<OnTimeout>{"Release", OnTimeout::kRelease}};

Gating ReadGating(JsonReader r) {
  return {r.OptionalInt("minNodes"), r.Int("settleSeconds", 5), r.Int("timeoutSeconds", 600),
          r.Enum("onTimeout", kOnTimeouts, OnTimeout::kFail)};
}

Condition ReadCondition(JsonReader r) {
  return {r.String("type"),
          r.String("status"),
          r.String("reason"),
          r.String("message"),
          r.Int64("observedGeneration"),
          r.String("lastTransitionTime")};
}

json EncodeCondition(const Condition& c) {
  return {{"type", c.type},
          {"status", c.status},
          {"reason", c.reason},
          {"message", c.message},
          {"observedGeneration", c.observed_generation},
          {"lastTransitionTime", c.last_transition_time}};
}

ComputeDomainStatus ReadStatus(JsonReader r) {
  ComputeDomainStatus status;
  status.observed_generation = r.Int64("observedGeneration");
  for (JsonReader& c : r.Children("conditions")) status.conditions.push_back(ReadCondition(c));
  JsonReader summary = r.Child("nodeSummary");
  status.total_nodes = summary.Int("total");
  status.ready_nodes = summary.Int("ready");
  status.nodes_without_fabric = summary.Int("withoutFabric");
  status.partition = r.String("partition");
  for (JsonReader& p : r.Children("partitions")) {
    status.partitions.push_back(
        {p.String("cliqueID"), p.String("imexDomain"), p.Int("channel"), p.Int("nodes"), p.Int("readyNodes")});
  }
  for (JsonReader& m : r.Children("members")) {
    status.members.push_back({m.String("node"), m.String("cliqueID"), m.String("address"), m.Int("index"), m.Bool("ready")});
  }
  return status;
}

}  // namespace

Result<ComputeDomain> DecodeComputeDomain(const json& object) {
  auto meta = DecodeMeta(object);
  if (!meta) return Fail(meta.error());
  std::optional<Error> error;
  JsonReader root(&object, "", error);
  JsonReader spec = root.Child("spec");
  JsonReader channel = spec.Child("channel");
  ComputeDomain cd;
  cd.meta = std::move(*meta);
  cd.claim_template_name = channel.Child("resourceClaimTemplate").String("name");
  cd.allocation_mode = ReadAllocationMode(channel);
  cd.isolation_mode = spec.Enum("isolationMode", kIsolationModes, IsolationMode::kChannel);
  cd.partition_policy = spec.Enum("partitionPolicy", kPartitionPolicies, PartitionPolicy::kAny);
  cd.fabric_policy = spec.Enum("fabricPolicy", kFabricPolicies, FabricPolicy::kRequired);
  if (spec.Has("gating")) cd.gating = ReadGating(spec.Child("gating"));
  if (spec.Has("imex")) cd.imex = ReadImexConfig(spec.Child("imex"));
  cd.status = ReadStatus(root.Child("status"));
  if (error) return Fail(Annotate(*error, "ComputeDomain " + ToString(cd.meta.Ref())));
  return cd;
}

json EncodeComputeDomainStatus(const ComputeDomainStatus& status) {
  json conditions = json::array();
  for (const Condition& c : status.conditions) conditions.push_back(EncodeCondition(c));
  json partitions = json::array();
  for (const PartitionStatus& p : status.partitions) {
    partitions.push_back({{"cliqueID", p.clique_id},
                          {"imexDomain", p.imex_domain},
                          {"channel", p.channel},
                          {"nodes", p.nodes},
                          {"readyNodes", p.ready_nodes}});
  }
  json members = json::array();
  for (const MemberStatus& m : status.members) {
    members.push_back(
        {{"node", m.node}, {"cliqueID", m.clique_id}, {"address", m.address}, {"index", m.index}, {"ready", m.ready}});
  }
  // null: this is a merge patch, and what it does not name stays.
  json without_fabric = status.nodes_without_fabric == 0 ? json(nullptr) : json(status.nodes_without_fabric);
  return {{"observedGeneration", status.observed_generation},
          {"conditions", std::move(conditions)},
          {"nodeSummary",
           {{"total", status.total_nodes}, {"ready", status.ready_nodes}, {"withoutFabric", std::move(without_fabric)}}},
          {"partition", status.partition.empty() ? json(nullptr) : json(status.partition)},
          {"partitions", std::move(partitions)},
          {"members", std::move(members)}};
}

}  // namespace cd::api
