// Real gRPC over unix sockets, with a client that behaves as the kubelet does.
#include "src/plugin/dra_server.h"

#include <gmock/gmock.h>
#include <grpcpp/grpcpp.h>
#include <gtest/gtest.h>

#include <chrono>
#include <filesystem>
#include <future>
#include <mutex>
#include <thread>

#include "src/base/event_loop.h"
#include "src/plugin/dra_messages.h"
#include "src/plugin/proto/dra.grpc.pb.h"
#include "src/plugin/proto/health.grpc.pb.h"
#include "src/plugin/proto/registration.grpc.pb.h"

namespace cd::plugin {
namespace {

namespace dra = ::k8s::io::kubelet::pkg::apis::dra::v1;
using internal::Fill;
using ::testing::ElementsAre;
using ::testing::HasSubstr;

// Answers at once, or keeps the answers back; on the loop's thread, read by the test after the call it waits for.
class FakeDriver final : public DraHandler {
 public:
  void Prepare(CallId call, const api::ObjectRef& claim, std::function<void(PrepareResult)> done) override {
    if (hold) {
      const std::lock_guard lock(mutex);
      held.emplace_back(call, std::move(done));
      held_one.set_value();
      return;
    }
    if (claim.name == "bad") return done(Fail(ErrorCode::kInvalidArgument, "domainID: is wrong; correct it"));
    done(std::vector<PreparedDevice>{
        {"channel/sub", "node-1", "channel-0", "share-1", {"compute-domain.nvidia.com/claim=" + claim.uid}},
        {"daemon", "node-1", "daemon", std::nullopt, {}}});
  }
  void Cancelled(CallId call) override {
    std::function<void(PrepareResult)> done;
    {
      const std::lock_guard lock(mutex);
      for (auto& [id, answer] : held) {
        if (id == call) done = std::move(answer);
      }
    }
    cancelled.set_value(call);
    if (done) done(Fail(ErrorCode::kCancelled, "given up"));
  }
  void Unprepare(const api::ObjectRef& claim, std::function<void(Status)> done) override {
    unprepared.push_back(claim);
    done({});
  }
  void Release() {
    const std::lock_guard lock(mutex);
    for (auto& [id, done] : held) done(std::vector<PreparedDevice>{});
    held.clear();
  }

  std::atomic<bool> hold = false;
  std::mutex mutex;
  std::vector<std::pair<CallId, std::function<void(PrepareResult)>>> held;
  std::promise<void> held_one;
  std::promise<CallId> cancelled;
  std::vector<api::ObjectRef> unprepared;
};

class DraServerTest : public ::testing::Test {
 protected:
  DraServerTest() {
    std::string name = "/tmp/cd-dra-XXXXXX";
    dir = ::mkdtemp(name.data());
    std::filesystem::create_directories(dir / "plugin");
    std::filesystem::create_directories(dir / "registry");
    thread = std::thread([this] { loop.Run(); });
    server = Start("uid-1");
  }
  ~DraServerTest() override {
    server.reset();
    loop.Stop();
    thread.join();
    std::filesystem::remove_all(dir);
  }
  SocketNames Sockets(const std::string& uid) {
    return NameSockets("compute-domain.nvidia.com", uid, dir / "plugin", dir / "registry").value();
  }
  std::unique_ptr<DraServer> Start(const std::string& uid) {
    return DraServer::Start({"compute-domain.nvidia.com", Sockets(uid), Duration(5'000), [this] { registered.set_value(); }},
                            loop, driver)
        .value();
  }
  static std::shared_ptr<grpc::Channel> Dial(const std::filesystem::path& socket) {
    return grpc::CreateChannel("unix:" + socket.string(), grpc::InsecureChannelCredentials());
  }
  static dra::NodePrepareResourcesRequest PrepareRequest(std::initializer_list<const char*> names) {
    dra::NodePrepareResourcesRequest request;
    for (const char* name : names) {
      auto* claim = request.add_claims();
      claim->set_namespace_("red-ns");
      claim->set_name(name);
      claim->set_uid(std::string("uid-of-") + name);
    }
    return request;
  }

  std::filesystem::path dir;
  EventLoop loop;
  FakeDriver driver;
  std::promise<void> registered;
  std::thread thread;
  std::unique_ptr<DraServer> server;
};

TEST_F(DraServerTest, registration_names_the_services_by_the_kubelets_names) {
  auto stub = pluginregistration::Registration::NewStub(Dial(Sockets("uid-1").registration));
  grpc::ClientContext context;
  pluginregistration::PluginInfo info;
  ASSERT_TRUE(stub->GetInfo(&context, {}, &info).ok());
  EXPECT_EQ(info.type(), "DRAPlugin");
  EXPECT_EQ(info.name(), "compute-domain.nvidia.com");
  EXPECT_EQ(info.endpoint(), (dir / "plugin/dra-uid-1.sock").string());
  EXPECT_THAT(info.supported_versions(), ElementsAre("v1.DRAPlugin", "v1alpha1.DRAResourceHealth"));
  // The wire name of the service is not the registered one.
  EXPECT_STREQ(dra::DRAPlugin::service_full_name(), "k8s.io.kubelet.pkg.apis.dra.v1.DRAPlugin");
  EXPECT_STREQ(::v1alpha1::DRAResourceHealth::service_full_name(), "v1alpha1.DRAResourceHealth");
}

TEST_F(DraServerTest, registered_only_after_the_kubelet_said_so) {
  EXPECT_FALSE(server->Registered());
  auto stub = pluginregistration::Registration::NewStub(Dial(Sockets("uid-1").registration));
  pluginregistration::RegistrationStatusResponse answer;
  pluginregistration::RegistrationStatus status;
  status.set_error("no");
  {
    grpc::ClientContext context;
    EXPECT_FALSE(stub->NotifyRegistrationStatus(&context, status, &answer).ok());
  }
  EXPECT_FALSE(server->Registered());
  status.set_plugin_registered(true);
  grpc::ClientContext context;
  EXPECT_TRUE(stub->NotifyRegistrationStatus(&context, status, &answer).ok());
  EXPECT_TRUE(server->Registered());
  registered.get_future().wait();  // told on the executor, once
}

TEST_F(DraServerTest, every_claim_gets_its_devices_or_its_error) {
  auto stub = dra::DRAPlugin::NewStub(Dial(Sockets("uid-1").dra));
  grpc::ClientContext context;
  dra::NodePrepareResourcesResponse answer;
  ASSERT_TRUE(stub->NodePrepareResources(&context, PrepareRequest({"good", "bad"}), &answer).ok());
  ASSERT_EQ(answer.claims().size(), 2u);
  EXPECT_EQ(answer.claims().at("uid-of-bad").error(), "domainID: is wrong; correct it");
  const auto& devices = answer.claims().at("uid-of-good").devices();
  ASSERT_EQ(devices.size(), 2);
  EXPECT_THAT(devices[0].request_names(), ElementsAre("channel"));  // the kubelet knows no subrequests
  EXPECT_EQ(devices[0].share_id(), "share-1");
  EXPECT_THAT(devices[0].cdi_device_ids(), ElementsAre("compute-domain.nvidia.com/claim=uid-of-good"));
  EXPECT_FALSE(devices[1].has_share_id());
}

TEST(DraMessages, an_error_reaches_the_pods_event_as_one_readable_line) {
  dra::NodePrepareResourceResponse answer;
  Fill(PrepareResult(Fail(ErrorCode::kInternal, "cannot read \"\xff\n\x1b[31m" + std::string(2000, 'x'))), answer);
  EXPECT_THAT(answer.error(), testing::StartsWith("cannot read \"\ufffd  [31mxxx"));
  EXPECT_EQ(answer.error().size(), 1024u);
}

TEST(DraMessages, a_claim_that_is_answered_twice_has_its_devices_once) {
  dra::NodePrepareResourceResponse answer;
  for (int i = 0; i < 2; ++i) Fill(PrepareResult({{"channel", "node-1", "channel-0", std::nullopt, {"id"}}}), answer);
  EXPECT_EQ(answer.devices_size(), 1);
}

TEST_F(DraServerTest, empty_prepare_is_answered_without_the_driver) {
  driver.hold = true;
  auto stub = dra::DRAPlugin::NewStub(Dial(Sockets("uid-1").dra));
  grpc::ClientContext context;
  dra::NodePrepareResourcesResponse answer;
  EXPECT_TRUE(stub->NodePrepareResources(&context, {}, &answer).ok());
}

TEST_F(DraServerTest, unprepare_answers_for_every_claim) {
  auto stub = dra::DRAPlugin::NewStub(Dial(Sockets("uid-1").dra));
  dra::NodeUnprepareResourcesRequest request;
  request.add_claims()->set_uid("u1");
  request.add_claims()->set_uid("u2");
  grpc::ClientContext context;
  dra::NodeUnprepareResourcesResponse answer;
  ASSERT_TRUE(stub->NodeUnprepareResources(&context, request, &answer).ok());
  EXPECT_EQ(answer.claims().size(), 2u);
  EXPECT_EQ(answer.claims().at("u1").error(), "");
}

TEST_F(DraServerTest, deadline_of_the_kubelet_cancels_the_driver) {
  driver.hold = true;
  auto stub = dra::DRAPlugin::NewStub(Dial(Sockets("uid-1").dra));
  grpc::ClientContext context;
  auto done = std::async(std::launch::async, [&] {
    dra::NodePrepareResourcesResponse answer;
    return stub->NodePrepareResources(&context, PrepareRequest({"slow"}), &answer);
  });
  driver.held_one.get_future().wait();
  context.TryCancel();
  EXPECT_EQ(done.get().error_code(), grpc::StatusCode::CANCELLED);
  EXPECT_GT(driver.cancelled.get_future().get(), 0u);
}

TEST_F(DraServerTest, stop_lets_the_call_in_flight_finish_and_unregisters_last) {
  driver.hold = true;
  auto stub = dra::DRAPlugin::NewStub(Dial(Sockets("uid-1").dra));
  grpc::ClientContext health_context;
  auto health = ::v1alpha1::DRAResourceHealth::NewStub(Dial(Sockets("uid-1").dra));
  auto stream = health->NodeWatchResources(&health_context, {});
  ::v1alpha1::NodeWatchResourcesResponse first;
  ASSERT_TRUE(stream->Read(&first));

  auto call = std::async(std::launch::async, [&] {
    grpc::ClientContext context;
    dra::NodePrepareResourcesResponse answer;
    return stub->NodePrepareResources(&context, PrepareRequest({"slow"}), &answer).ok();
  });
  driver.held_one.get_future().wait();
  auto stopping = std::async(std::launch::async, [&] { server->Stop(); });
  ::v1alpha1::NodeWatchResourcesResponse more;
  while (stream->Read(&more)) {
  }
  // While the call is open the plugin stays registered.
  EXPECT_EQ(stopping.wait_for(std::chrono::milliseconds(0)), std::future_status::timeout);
  EXPECT_TRUE(std::filesystem::exists(Sockets("uid-1").registration));
  loop.Post([&] { driver.Release(); });
  EXPECT_TRUE(call.get());
  stopping.get();
  EXPECT_FALSE(std::filesystem::exists(Sockets("uid-1").registration));
  EXPECT_FALSE(std::filesystem::exists(Sockets("uid-1").dra));
}

TEST_F(DraServerTest, second_instance_serves_beside_the_first_and_survives_it) {
  auto second = Start("uid-2");
  server->Stop();
  auto stub = dra::DRAPlugin::NewStub(Dial(Sockets("uid-2").dra));
  grpc::ClientContext context;
  dra::NodePrepareResourcesResponse answer;
  EXPECT_TRUE(stub->NodePrepareResources(&context, PrepareRequest({"good"}), &answer).ok());
  EXPECT_TRUE(std::filesystem::exists(Sockets("uid-2").registration));
}

TEST_F(DraServerTest, health_stream_starts_with_the_whole_list_and_repeats_it_whole) {
  server->SetHealth({{"node-1", "channel-0", true, ""}, {"node-1", "daemon", true, ""}});
  auto stub = ::v1alpha1::DRAResourceHealth::NewStub(Dial(Sockets("uid-1").dra));
  grpc::ClientContext context;
  auto stream = stub->NodeWatchResources(&context, {});
  ::v1alpha1::NodeWatchResourcesResponse list;
  ASSERT_TRUE(stream->Read(&list));
  EXPECT_EQ(list.devices().size(), 2);
  server->SetHealth({{"node-1", "channel-0", false, "GPU 2 left the fabric"}, {"node-1", "daemon", true, ""}});
  ASSERT_TRUE(stream->Read(&list));
  ASSERT_EQ(list.devices().size(), 2);
  EXPECT_EQ(list.devices()[0].health(), ::v1alpha1::UNHEALTHY);
  EXPECT_EQ(list.devices()[0].message(), "GPU 2 left the fabric");
  EXPECT_EQ(list.devices()[1].health(), ::v1alpha1::HEALTHY);
  context.TryCancel();
  stream->Finish();
}

TEST_F(DraServerTest, directory_that_is_missing_is_an_error_that_names_it) {
  auto failed = DraServer::Start({"d", {"/nonexistent/dra.sock", "/nonexistent/reg.sock"}, Duration(100), {}}, loop, driver);
  ASSERT_FALSE(failed);
  EXPECT_THAT(failed.error().message, HasSubstr("/nonexistent/dra.sock"));
}

TEST(SocketNames, rolling_update_names_carry_the_pods_uid) {
  const auto names = NameSockets("compute-domain.nvidia.com", "0f3a1c4e-0000-4000-8000-00000000c11c",
                                 "/var/lib/kubelet/plugins/compute-domain.nvidia.com", "/var/lib/kubelet/plugins_registry");
  ASSERT_TRUE(names);
  EXPECT_EQ(names->dra, "/var/lib/kubelet/plugins/compute-domain.nvidia.com/dra-0f3a1c4e-0000-4000-8000-00000000c11c.sock");
  EXPECT_EQ(names->registration.filename(), "compute-domain.nvidia.com-0f3a1c4e-0000-4000-8000-00000000c11c-reg.sock");
}

TEST(SocketNames, registration_name_that_does_not_fit_is_shortened_to_a_hash) {
  const std::filesystem::path deep = "/" + std::string(55, 'd');
  const auto names = NameSockets("compute-domain.nvidia.com", "0f3a1c4e-0000-4000-8000-00000000c11c", "/p", deep);
  ASSERT_TRUE(names);
  EXPECT_LE(names->registration.string().size(), kMaxSocketPath);
  EXPECT_THAT(names->registration.filename().string(), HasSubstr("compute-domain.nvidia.com-"));
  // Two instances stay apart.
  EXPECT_NE(names->registration, NameSockets("compute-domain.nvidia.com", "another-uid", "/p", deep)->registration);
}

TEST(SocketNames, uid_that_is_no_file_name_and_directory_that_is_too_long_are_refused) {
  EXPECT_FALSE(NameSockets("d", "../x", "/p", "/r"));
  EXPECT_FALSE(NameSockets("d", "u", "/" + std::string(120, 'p'), "/r"));
  EXPECT_EQ(NameSockets("d", "", "/p", "/r")->dra, "/p/dra.sock");
}

}  // namespace
}  // namespace cd::plugin
