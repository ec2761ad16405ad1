#include "tests/integration/controller_fixture.h"

#include <filesystem>

#include "src/api/resource_claim.h"
#include "src/base/files.h"
#include "src/base/log.h"

namespace cd::integration {

using nlohmann::json;

namespace {

std::string NameOf(const kube::ApiRequest& request) {
  static const std::map<kube::Verb, std::string> kVerbs{{kube::Verb::kGet, "get"},       {kube::Verb::kList, "list"},
                                                        {kube::Verb::kCreate, "create"}, {kube::Verb::kUpdate, "update"},
                                                        {kube::Verb::kPatch, "patch"},   {kube::Verb::kDelete, "delete"}};
  return kVerbs.at(request.verb) + " " + request.type.plural + (request.subresource.empty() ? "" : "/" + request.subresource);
}

bool IsRead(const std::string& name) {
  return name.starts_with("get ") || name.starts_with("list ");
}

template <typename T, typename Decode>
std::optional<T> Fetch(Connection& connection, const api::ResourceType& type, const api::ObjectKey& key, Decode decode) {
  const auto answer = connection.Call(kube::Get(type, key));
  if (!answer) {
    EXPECT_EQ(answer.error().code, ErrorCode::kNotFound) << answer.error().message;
    return std::nullopt;
  }
  auto object = decode(*answer);
  EXPECT_TRUE(object) << object.error().message;
  return object ? std::optional<T>(*std::move(object)) : std::nullopt;
}

}  // namespace

void CountingClient::Call(kube::ApiRequest request, Callback done) {
  const std::string name = NameOf(request);
  {
    const std::lock_guard lock(mutex_);
    ++counts_[name];
  }
  inner_.Call(std::move(request), [this, name, done = std::move(done)](Result<json> answer) {
    if (!answer) {
      const std::lock_guard lock(mutex_);
      refused_.push_back(name + ": " + answer.error().message);
    }
    done(std::move(answer));
  });
}

std::map<std::string, int> CountingClient::Counts() const {
  const std::lock_guard lock(mutex_);
  return counts_;
}

int CountingClient::Total() const {
  int total = 0;
  for (const auto& [name, count] : Counts()) total += count;
  return total;
}

int CountingClient::Writes() const {
  int total = 0;
  for (const auto& [name, count] : Counts()) total += IsRead(name) ? 0 : count;
  return total;
}

std::vector<std::string> CountingClient::Refused() const {
  const std::lock_guard lock(mutex_);
  return refused_;
}

void CountingClient::Reset() {
  const std::lock_guard lock(mutex_);
  counts_.clear();
  refused_.clear();
}

ControllerProcess::ControllerProcess(controller::ControllerOptions options) {
  connection.OnLoop([&] {
    controller_ = std::make_unique<controller::Controller>(client, connection.loop, options);
    controller_->StartInformers();
  });
  worker_ = std::thread([this] { controller_->RunWorker(); });
}

ControllerProcess::~ControllerProcess() {
  controller_->Stop();
  worker_.join();
  connection.OnLoop([&] { controller_.reset(); });
}

void ControllerTest::SetUpTestSuite() {
  static bool installed = false;
  if (std::exchange(installed, true)) return;
  InitLog("compute-domain-controller", LogLevel::kDebug, SystemClock());
  Connection admin;
  for (const char* kind : {"computedomains", "imexdomains", "imexnodes"}) {
    ASSERT_TRUE(ApplyFile(admin, kCrds, std::string(kind) + ".resource.nvidia.com",
                          CD_SOURCE_DIR "/deploy/crds/" + (kind + std::string(".yaml"))));
  }
  for (const api::ResourceType& type : {api::kComputeDomains, api::kImexDomains, api::kImexNodes}) {
    ASSERT_TRUE(Eventually([&] { return admin.Call(kube::List(type)).has_value(); })) << type.plural << " are not served";
  }
}

void ControllerTest::SetUp() {
  ns_ = MakeNamespace(user_);
  clique_ = "00000000-0000-4000-8000-000000000000." + ns_.substr(ns_.rfind('-') + 1);
  controller_ = std::make_unique<ControllerProcess>();
}

// Nothing of this test may concern the next one's controller.
void ControllerTest::TearDown() {
  if (!controller_) controller_ = std::make_unique<ControllerProcess>();
  const auto claims = Call(kube::List(api::kResourceClaims, ns_));
  for (const json& claim : claims->at("items")) {
    (void)Call(kube::MergePatch(api::kResourceClaims, {ns_, claim["metadata"]["name"]}, {{"status", nullptr}}, "status"));
    (void)Call(kube::Delete(api::kResourceClaims, {ns_, claim["metadata"]["name"]}));
  }
  const auto cds = Call(kube::List(api::kComputeDomains, ns_));
  for (const json& cd : cds->at("items")) (void)Call(kube::Delete(api::kComputeDomains, {ns_, cd["metadata"]["name"]}));
  EXPECT_TRUE(Eventually([&] { return Call(kube::List(api::kComputeDomains, ns_))->at("items").empty(); }));
  for (const std::string& node : nodes_) LeaveClique(node);
  EXPECT_TRUE(Eventually([&] { return !Domain(); })) << "the IMEXDomain outlives its last member";
  for (const std::string& node : nodes_) (void)Call(kube::Delete(api::kImexNodes, {"", node}));
  controller_.reset();
}

json ControllerTest::MustCall(kube::ApiRequest request) {
  auto answer = Call(std::move(request));
  EXPECT_TRUE(answer) << answer.error().message;
  return answer.value_or(json::object());
}

std::string ControllerTest::MakeComputeDomain(const std::string& name, json spec_changes) {
  json spec = {{"channel", {{"resourceClaimTemplate", {{"name", name + "-channel"}}}}}};
  spec.merge_patch(spec_changes);
  const json made = MustCall(
      kube::Create(api::kComputeDomains, ns_, {{"metadata", {{"name", name}, {"labels", {{"queue", "gold"}}}}}, {"spec", spec}}));
  return made.value("/metadata/uid"_json_pointer, "");
}

void ControllerTest::DeleteComputeDomain(const std::string& name) {
  MustCall(kube::Delete(api::kComputeDomains, {ns_, name}));
}

void ControllerTest::MakeNode(const std::string& node, const std::function<void(api::ImexNodeStatus&)>& change) {
  nodes_.push_back(node);
  MustCall(kube::Create(api::kImexNodes, "", {{"metadata", {{"name", node}}}, {"spec", json::object()}}));
  Report(node, [&](api::ImexNodeStatus& status) {
    status.boot_id = "boot-" + node;
    status.driver_version = "580.105.08";
    status.fabric = api::FabricState::kReady;
    status.clique_ids = {clique_};
    status.daemon.address = "10.0.0.1";
    status.daemon.state = api::DaemonState::kStarting;
    if (change) change(status);
  });
}

void ControllerTest::Report(const std::string& node, const std::function<void(api::ImexNodeStatus&)>& change) {
  auto object = Node(node);
  ASSERT_TRUE(object) << node;
  change(object->status);
  MustCall(kube::MergePatch(api::kImexNodes, {"", node}, {{"status", api::EncodeImexNodeStatus(object->status)}}, "status"));
}

void ControllerTest::ServeAssignment(const std::string& node) {
  std::optional<api::DomainAssignment> assignment;
  ASSERT_TRUE(Eventually([&] {
    const auto domain = Domain();
    assignment = Node(node)->domain;
    return domain && assignment && assignment->uid == domain->meta.uid;
  })) << node
      << " gets no slot";
  Report(node, [&](api::ImexNodeStatus& status) {
    status.daemon.state = api::DaemonState::kReady;
    status.daemon.domain_uid = assignment->uid;
    status.daemon.index = assignment->index;
  });
}

// In the plugin's two steps: it tells the place it acts on until the assignment is taken back, and then that it left it.
void ControllerTest::LeaveClique(const std::string& node) {
  Report(node, [assigned = Node(node)->domain](api::ImexNodeStatus& status) {
    status.channels.clear();
    status.clique_ids.clear();
    status.fabric = api::FabricState::kNone;
    if (assigned) status.daemon.domain_uid = assigned->uid;
  });
  EXPECT_TRUE(Eventually([&] { return !Node(node)->domain; })) << node << " keeps its assignment";
  Report(node, [](api::ImexNodeStatus& status) { status.daemon = {}; });
}

void ControllerTest::Hold(const std::string& node, int channel, const std::string& compute_domain_uid) {
  Report(node,
         [&](api::ImexNodeStatus& status) { status.channels.push_back({Domain()->meta.uid, channel, compute_domain_uid}); });
}

void ControllerTest::HoldNothing(const std::string& node) {
  Report(node, [](api::ImexNodeStatus& status) { status.channels.clear(); });
}

Workload ControllerTest::Run(const std::string& pod, const std::string& compute_domain_uid, const std::string& node,
                             const std::string& ns) {
  const std::string where = ns.empty() ? ns_ : ns;
  const Workload workload{
      pod, pod + "-claim",
      MustCall(kube::Create(api::kPods, where,
                            {{"metadata", {{"name", pod}}},
                             {"spec", {{"containers", json::array({{{"name", "c"}, {"image", "none"}}})}}}}))["metadata"]["uid"]};
  const json config = {
      {"requests", {"channel"}},
      {"opaque", {{"driver", api::kDriverName}, {"parameters", api::EncodeChannelConfig({compute_domain_uid, {}})}}}};
  MustCall(kube::Create(
      api::kResourceClaims, where,
      {{"metadata", {{"name", workload.claim}}},
       {"spec",
        {{"devices",
          {{"requests", json::array({{{"name", "channel"}, {"exactly", {{"deviceClassName", api::kChannelDeviceClass}}}}})},
           {"config", json::array({config})}}}}}}));
  json allocated = config;
  allocated["source"] = "FromClaim";
  const json result = {{"request", "channel"}, {"driver", api::kDriverName}, {"pool", node}, {"device", "channel-0"}};
  MustCall(kube::MergePatch(
      api::kResourceClaims, {where, workload.claim},
      {{"status",
        {{"allocation", {{"devices", {{"results", json::array({result})}, {"config", json::array({allocated})}}}}},
         {"reservedFor", json::array({{{"resource", "pods"}, {"name", pod}, {"uid", workload.pod_uid}}})}}}},
      "status"));
  return workload;
}

void ControllerTest::End(const Workload& workload) {
  MustCall(kube::MergePatch(api::kResourceClaims, {ns_, workload.claim}, {{"status", nullptr}}, "status"));
  MustCall(kube::Delete(api::kResourceClaims, {ns_, workload.claim}));
  kube::ApiRequest now = kube::Delete(api::kPods, {ns_, workload.pod});
  now.query = {{"gracePeriodSeconds", "0"}};
  MustCall(now);
}

std::optional<api::ImexDomain> ControllerTest::Domain() {
  return Fetch<api::ImexDomain>(user_, api::kImexDomains, {"", clique_}, api::DecodeImexDomain);
}

std::optional<api::ImexNode> ControllerTest::Node(const std::string& node) {
  return Fetch<api::ImexNode>(user_, api::kImexNodes, {"", node}, api::DecodeImexNode);
}

std::optional<api::ComputeDomain> ControllerTest::ComputeDomain(const std::string& name) {
  return Fetch<api::ComputeDomain>(user_, api::kComputeDomains, {ns_, name}, api::DecodeComputeDomain);
}

std::string ControllerTest::ConditionOf(const std::string& name, const std::string& type) {
  const auto cd = ComputeDomain(name);
  if (!cd) return "";
  for (const api::Condition& condition : cd->status.conditions) {
    if (condition.type == type) return condition.status + " " + condition.reason;
  }
  return "";
}

std::optional<api::ChannelLease> ControllerTest::Lease(const std::string& uid) {
  const auto domain = Domain();
  if (!domain) return std::nullopt;
  for (const api::ChannelLease& lease : domain->channels) {
    if (lease.compute_domain.uid == uid) return lease;
  }
  return std::nullopt;
}

int ControllerTest::WaitForLease(const std::string& uid) {
  std::optional<api::ChannelLease> lease;
  EXPECT_TRUE(Eventually([&] { return (lease = Lease(uid)).has_value(); })) << "no lease";
  return lease ? lease->channel : -1;
}

std::string ControllerTest::WakeOf(const Workload& workload) {
  const json pod = MustCall(kube::Get(api::kPods, {ns_, workload.pod}));
  const auto annotations = pod["metadata"].value("annotations", json::object());
  return annotations.value(api::kWakeAnnotation, "");
}

}  // namespace cd::integration
