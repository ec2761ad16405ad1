#include "src/webhook/webhook.h"

#include <malloc.h>

#include <utility>

#include "src/api/conversion_review.h"
#include "src/base/files.h"
#include "src/base/log.h"

namespace cd::webhook {

namespace {

constexpr char kConvert[] = "/convert";
constexpr std::size_t kLongestPem = 64 * 1024;
constexpr std::size_t kLarge = 1024 * 1024;

// The files of a Secret's volume are links that the kubelet made.
Result<std::string> ReadPem(const std::filesystem::path& path) {
  std::error_code error;
  const auto target = std::filesystem::canonical(path, error);
  if (error) return Fail(ErrorCode::kNotFound, path.string() + ": " + error.message());
  return ReadSmallFile(target, kLongestPem);
}

std::size_t LongestBody(std::string_view target) {
  return target == kConvert ? api::kLongestReview : 0;
}

HttpAnswer Handle(std::string_view, std::string body) {
  const bool large = body.size() > kLarge;
  api::ReviewAnswer answer = api::AnswerConversionReview(body);
  if (!answer.failure.empty()) LogWarning("a ConversionReview fails", {{"error", answer.failure}});
  std::string().swap(body);
  // The objects of a list of thousands take some ten times its text, and the next list may be a day away.
  if (large) ::malloc_trim(0);
  return {answer.http_status, std::move(answer.body), answer.http_status == 200 ? "application/json" : "text/plain"};
}

}  // namespace

Webhook::Webhook(EventLoop& loop, WebhookOptions options)
    : options_(std::move(options)),
      server_(LongestBody, Handle),
      // A volume of a Secret is changed by renaming its link ..data.
      watch_(loop, options_.tls_dir, {"..data", "tls.crt", "tls.key"}, [this] { ReadIdentity(); }) {
  ReadIdentity();
}

Status Webhook::Listen() {
  return server_.Listen(options_.https);
}

void Webhook::ReadIdentity() {
  const auto certificate = ReadPem(options_.tls_dir / "tls.crt");
  const auto key = ReadPem(options_.tls_dir / "tls.key");
  Status used;
  if (!certificate) {
    used = Fail(certificate.error());
  } else if (!key) {
    used = Fail(key.error());
  } else {
    KeyPair identity{*certificate, *key};
    if (identity.certificate == identity_.certificate && identity.key == identity_.key && problem_.empty()) return;
    used = server_.Use(identity);
    if (used) identity_ = std::move(identity);
  }
  if (used) {
    problem_.clear();
    return LogInfo("the serving certificate is read", {{"directory", options_.tls_dir.string()}});
  }
  problem_ = "no serving certificate: " + used.error().message;
  LogWarning(problem_, {{"directory", options_.tls_dir.string()}});
}

}  // namespace cd::webhook
