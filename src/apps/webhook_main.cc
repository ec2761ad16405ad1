// compute-domain-webhook: converts ComputeDomains between the versions of the API.
#include "src/apps/command_line.h"
#include "src/base/event_loop.h"
#include "src/base/http_health.h"
#include "src/base/log.h"
#include "src/base/stop_signals.h"
#include "src/webhook/webhook.h"

namespace {

// Endpoints of a pod that ends are taken out of use only after it was told so: until then it answers.
constexpr cd::Duration kStayOpen{5'000};
constexpr cd::Duration kAnswerRest{10'000};

struct Options {
  cd::webhook::WebhookOptions webhook;
  std::uint16_t health_port = 8083;
};

int Run(const Options& options, cd::LogLevel level) {
  cd::InitLog("compute-domain-webhook", level, cd::SystemClock());
  cd::EventLoop loop;
  bool ending = false;
  const cd::StopSignals signals(loop, [&] {
    if (ending) return loop.Stop();  // asked twice: at once
    ending = true;
    loop.PostAfter(kStayOpen, [&] { loop.Stop(); });
  });
  cd::webhook::Webhook webhook(loop, options.webhook);
  cd::HealthServer health(loop, [&](std::string_view path) {
    return cd::AnswerProbe(path, [&] { return ending ? std::string("the process ends") : webhook.WhyNotReady(); });
  });
  for (const cd::Status& started :
       {webhook.Listen(), options.health_port == 0 ? cd::Status{} : health.Listen(options.health_port)}) {
    if (started) continue;
    cd::LogError("cannot start", {{"error", started.error().message}});
    return 1;
  }
  cd::LogInfo("serving", {{"port", static_cast<int>(webhook.port())}});
  loop.Run();
  webhook.Stop(kAnswerRest);
  return 0;
}

}  // namespace

int main(int argc, char** argv) {
  Options options;
  options.webhook.https.port = 9443;
  std::string tls_dir = "/tls";
  cd::LogLevel level = cd::LogLevel::kInfo;

  CLI::App app("Converts ComputeDomains between v1beta1 and v1beta2 for the API server.");
  cd::AddCommonFlags(app, level);
  app.add_option("--address", options.webhook.https.address, "Address to serve on")
      ->envname("CD_ADDRESS")
      ->check(CLI::ValidIPV4 | CLI::IsMember({"::", "::1"}));
  app.add_option("--port", options.webhook.https.port, "Port of the webhook; 0 takes a free one")->envname("CD_PORT");
  app.add_option("--health-port", options.health_port, "Port of /healthz and /readyz; 0: none")->envname("CD_HEALTH_PORT");
  app.add_option("--tls-dir", tls_dir, "Directory with tls.crt and tls.key, read again when they change")->envname("CD_TLS_DIR");
  if (const auto exit_code = cd::ParseFlags(app, argc, argv)) return *exit_code;
  options.webhook.tls_dir = tls_dir;
  return Run(options, level);
}
