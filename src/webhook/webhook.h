// The webhook process: converts ComputeDomains for the API server. No API access, no cache, no leader: every replica alike.
#pragma once

#include <filesystem>
#include <string>

#include "src/base/directory_watch.h"
#include "src/base/event_loop.h"
#include "src/webhook/https_server.h"

namespace cd::webhook {

struct WebhookOptions {
  std::filesystem::path tls_dir;  // tls.crt and tls.key, as in a Secret of type kubernetes.io/tls; read again when they change
  HttpsOptions https;
};

// Loop's thread only.
class Webhook {
 public:
  Webhook(EventLoop& loop, WebhookOptions options);

  // A certificate that cannot be read is no reason to end: it may be on its way.
  Status Listen();
  std::uint16_t port() const { return server_.port(); }
  // "": requests are answered.
  std::string WhyNotReady() const { return identity_.certificate.empty() ? problem_ : ""; }
  // Why the newest certificate is not used, also where a former one serves on.
  const std::string& problem() const { return problem_; }
  // As HttpsServer::Stop.
  void Stop(Duration limit) { server_.Stop(limit); }

 private:
  void ReadIdentity();

  const WebhookOptions options_;
  HttpsServer server_;
  DirectoryWatch watch_;
  KeyPair identity_;
  std::string problem_;
};

}  // namespace cd::webhook
