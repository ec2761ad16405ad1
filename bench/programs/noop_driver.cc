// A DRA driver that does nothing, to measure what a claim costs whatever driver serves it: it registers, answers every Prepare
// with the one device there is, and writes no file. It has no API access; the bench publishes its ResourceSlices. As the other
// driver of a claim with two it can also refuse every Prepare.
#include <signal.h>

#include <cstdio>
#include <filesystem>
#include <string>
#include <string_view>
#include <thread>

#include "src/base/event_loop.h"
#include "src/base/log.h"
#include "src/plugin/dra_server.h"
#include "src/plugin/socket_names.h"

namespace {

// The names of bench/noop.py.
constexpr char kDriver[] = "noop.bench.example";
constexpr char kDevice[] = "noop";
constexpr char kRequest[] = "device";
constexpr char kRefuse[] = "refuse";
constexpr char kRefusal[] = "told to refuse";

class NoopHandler final : public cd::plugin::DraHandler {
 public:
  NoopHandler(std::string pool, bool refuse) : pool_(std::move(pool)), refuse_(refuse) {}

  void Prepare(cd::plugin::CallId, const cd::api::ObjectRef&, std::function<void(cd::plugin::PrepareResult)> done) override {
    if (refuse_) return done(cd::Fail(cd::ErrorCode::kUnavailable, kRefusal));
    done(std::vector<cd::plugin::PreparedDevice>{
        {.request = kRequest, .pool = pool_, .device = kDevice, .share_id = {}, .cdi_ids = {}}});
  }
  void Cancelled(cd::plugin::CallId) override {}
  void Unprepare(const cd::api::ObjectRef&, std::function<void(cd::Status)> done) override { done({}); }

 private:
  const std::string pool_;
  const bool refuse_;
};

cd::Result<std::unique_ptr<cd::plugin::DraServer>> Serve(cd::Executor& executor, NoopHandler& handler) {
  const std::filesystem::path plugin_dir = std::string("/var/lib/kubelet/plugins/") + kDriver;
  auto sockets = cd::plugin::NameSockets(kDriver, "", plugin_dir, "/var/lib/kubelet/plugins_registry");
  if (!sockets) return cd::Fail(sockets.error());
  return cd::plugin::DraServer::Start({.driver = kDriver, .sockets = *sockets}, executor, handler);
}

// Signals are blocked in every thread, gRPC's included, and taken here.
sigset_t BlockEndSignals() {
  sigset_t end;
  sigemptyset(&end);
  sigaddset(&end, SIGTERM);
  sigaddset(&end, SIGINT);
  pthread_sigmask(SIG_BLOCK, &end, nullptr);
  return end;
}

}  // namespace

int main(int argc, char** argv) {
  const bool refuse = argc == 3 && std::string_view(argv[2]) == kRefuse;
  if (argc != 2 && !refuse) {
    std::fputs("usage: noop-driver NODE [refuse]\n", stderr);
    return 2;
  }
  const sigset_t end = BlockEndSignals();
  cd::InitLog("noop-driver", cd::LogLevel::kInfo, cd::SystemClock());
  cd::EventLoop loop;
  NoopHandler handler(argv[1], refuse);
  std::thread thread([&loop] { loop.Run(); });
  auto server = Serve(loop, handler);
  int signal = 0;
  if (server) {
    sigwait(&end, &signal);
    (*server)->Stop();
  } else {
    cd::LogError("cannot serve", {{"error", server.error().message}});
  }
  loop.Stop();
  thread.join();
  return server ? 0 : 1;
}
