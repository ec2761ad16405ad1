#include "src/base/files.h"
#include "src/plugin/dra_messages.h"

#include "src/plugin/node_driver.h"
#include "src/plugin/prepare_fixture.h"
#include "tests/fuzz/fuzz.h"
#include "tests/simulation/memory_disk.h"

namespace cd::fuzz {

namespace {

using namespace plugin;
namespace dra = plugin::internal::dra;

constexpr char kDriverNamespace[] = "computedomain-system";
constexpr char kNobody[] = "99999999-9999-4999-8999-999999999999";

class Reported final : public ChannelReport {
  void EnsureReported(const api::NodeChannel&, std::function<void(Status)> done) override { done({}); }
  void PrepareEnded(const std::string&, bool) override {}
};

// Device numbers are read from real files; they are the same for every input.
const ClaimFiles::Paths& Paths() {
  static const TempDir dir;
  static const ClaimFiles::Paths paths = [] {
    WriteDriver(dir);
    return ClaimFiles::Paths{"/cdi",    "/plugin", dir.path() / "devices", dir.path() / "caps",
                             "/driver", "/driver", dir.path() / "params"};
  }();
  return paths;
}

// A node on which claim 1 and 2 can be prepared, 3 names a ComputeDomain nobody has, 4 is the daemon's, and 5 says nonsense.
struct Node {
  Node() {
    disk_content->files = {{"/driver/usr/bin/nvidia-imex", ""}, {"/driver/usr/bin/nvidia-imex-ctl", ""}};
    Offer(ClaimObject(ClaimRef(1), kRedUid));
    Offer(ClaimObject(ClaimRef(2), kRedUid));
    Offer(ClaimObject(ClaimRef(3), kNobody));
    Offer(ClaimObject(ClaimRef(4, kDriverNamespace), "", "daemon"));
    Offer(ClaimObject(ClaimRef(5), "nonsense"));
    nlohmann::json domain = api::EncodeImexDomain(DomainObject({Lease(7, kRedUid)}));
    domain["metadata"]["uid"] = kDomainUid;
    server.Put(api::kImexDomains, std::move(domain));
    driver.SetView(std::make_shared<NodeView>(ViewOf({Lease(7, kRedUid)})));
  }
  void Offer(nlohmann::json claim) { server.Put(api::kResourceClaims, std::move(claim)); }

  std::shared_ptr<simulation::DiskContent> disk_content = std::make_shared<simulation::DiskContent>();
  simulation::MemoryDisk disk{disk_content};
  ManualExecutor executor;
  FakeApi server{executor};
  ClaimFiles files{Paths(), disk};
  NodeState state{executor, "/plugin", "boot-1", files, disk};
  Reported report;
  NodeDriver driver{executor, server, state, files, report, {kNode, kDriverNamespace, "pod-a"}};
};

bool Nameable(const dra::Claim& claim) {
  return IsSafePathComponent(claim.uid()) && IsSafePathComponent(claim.namespace_()) && IsSafePathComponent(claim.name());
}

// Claims the API has, by what the kubelet named them.
bool Known(const dra::Claim& claim) {
  const api::ObjectRef ref = internal::RefOf(claim);
  return ref == ClaimRef(1) || ref == ClaimRef(2) || ref == ClaimRef(4, kDriverNamespace);
}

template <typename Message>
void RequireReadable(const Message& answer) {
  Message read;
  Require(read.ParseFromString(answer.SerializeAsString()), "the kubelet can read the answer");
}

// Only what belongs to a claim that was granted lies on the disk.
void RequireFiles(const Node& node, const std::set<std::string>& granted) {
  for (const auto& [path, content] : node.disk_content->files) {
    if (path.starts_with("/driver/") || path == "/plugin/checkpoint.json") continue;
    bool expected = false;
    for (const std::string& uid : granted) {
      expected = expected || path == "/plugin/claims/" + uid + ".json" ||
                 path == "/cdi/compute-domain.nvidia.com-claim_" + uid + ".json";
    }
    Require(expected, "no file is written for what was not granted: " + path);
  }
}

void Prepare(Node& node, const dra::NodePrepareResourcesRequest& request) {
  dra::NodePrepareResourcesResponse response;
  int answers = 0;
  std::set<std::string> granted;
  bool any_nameable = false;
  for (const dra::Claim& claim : request.claims()) {
    any_nameable = any_nameable || Nameable(claim);
    node.driver.Prepare(1, internal::RefOf(claim), [&, claim](PrepareResult result) {
      ++answers;
      internal::Fill(result, (*response.mutable_claims())[claim.uid()]);
      if (!result) return;
      granted.insert(claim.uid());
      Require(result->size() == 1, "a granted claim has its one device");
    });
  }
  node.executor.Advance(kPrepareLimit + kOvertime);
  Require(answers == request.claims_size(), "every claim is answered once");
  RequireReadable(response);
  for (const auto& [uid, answer] : response.claims()) {
    RequirePrintable(answer.error(), 1024);
    Require(answer.error().empty() == (answer.devices_size() == 1), "a claim gets its device or a reason");
  }
  Require(any_nameable || node.server.calls.empty(), "what is no name is asked of nobody");
  for (const std::string& uid : granted) {
    Require(std::any_of(request.claims().begin(), request.claims().end(),
                        [&](const dra::Claim& claim) { return claim.uid() == uid && Known(claim); }),
            "only what the API allocated is granted");
  }
  RequireFiles(node, granted);
}

void Unprepare(Node& node, const dra::NodeUnprepareResourcesRequest& request) {
  dra::NodeUnprepareResourcesResponse response;
  int answers = 0;
  for (const dra::Claim& claim : request.claims()) {
    node.driver.Unprepare(internal::RefOf(claim), [&, claim](const Status& result) {
      ++answers;
      internal::Fill(result, (*response.mutable_claims())[claim.uid()]);
      Require(result.has_value(), "an Unprepare never fails, whatever it is of");
    });
  }
  node.executor.RunPosted();
  Require(answers == request.claims_size(), "every claim is answered once");
  RequireReadable(response);
  node.state.Transact(
      [](plugin::Checkpoint& checkpoint) -> Status {
        Require(checkpoint.claims.empty(), "no claim stays prepared");
        return {};
      },
      [](const Status& read) { Require(read.has_value(), "the checkpoint can be read"); });
  for (const auto& [path, content] : node.disk_content->files) Require(!path.starts_with("/cdi/"), "no CDI spec is left");
}

}  // namespace

// The same bytes are the request of both calls: they differ in name only.
void DraRequest(std::string_view input) {
  dra::NodePrepareResourcesRequest prepare;
  dra::NodeUnprepareResourcesRequest unprepare;
  [[maybe_unused]] static const auto silenced = google::protobuf::SetLogHandler(nullptr);  // as Silence does for our own log
  const int size = static_cast<int>(input.size());
  const bool parsed = prepare.ParseFromArray(input.data(), size);
  Require(unprepare.ParseFromArray(input.data(), size) == parsed, "both calls take the same messages");
  if (!parsed) return;
  Node node;
  Prepare(node, prepare);
  Unprepare(node, unprepare);
}

}  // namespace cd::fuzz
