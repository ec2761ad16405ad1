#include "src/kube/curl_transfer.h"

#include <netinet/in.h>
#include <netinet/tcp.h>
#include <sys/socket.h>

#include <fmt/format.h>
#include <utility>

namespace cd::kube {
namespace {

constexpr long kConnectTimeoutMs = 5'000;
// A peer that vanished without a FIN is given up after this, also while only keep-alive probes are under way.
constexpr int kTcpUserTimeoutMs = 30'000;
constexpr long kKeepAliveSeconds = 15;
// Below the server's own idle limit (Go closes after 90 s or more), so that it hardly ever closes a connection we just picked.
constexpr long kLongestIdleSeconds = 80;

int OnSocketMade(void*, curl_socket_t socket, curlsocktype) {
  ::setsockopt(socket, IPPROTO_TCP, TCP_USER_TIMEOUT, &kTcpUserTimeoutMs, sizeof kTcpUserTimeoutMs);
  return CURL_SOCKOPT_OK;
}

void SetBlob(CURL* easy, CURLoption option, const std::string& pem) {
  curl_blob blob{const_cast<char*>(pem.data()), pem.size(), CURL_BLOB_NOCOPY};
  curl_easy_setopt(easy, option, &blob);
}

// "https://host:port/path" with the host replaced, and the --connect-to rule that leads back to the real one.
std::pair<std::string, std::string> Rename(const std::string& url, const std::string& name) {
  std::unique_ptr<CURLU, decltype(&curl_url_cleanup)> parsed(curl_url(), &curl_url_cleanup);
  char *host = nullptr, *port = nullptr, *renamed = nullptr;
  curl_url_set(parsed.get(), CURLUPART_URL, url.c_str(), 0);
  curl_url_get(parsed.get(), CURLUPART_HOST, &host, 0);
  curl_url_get(parsed.get(), CURLUPART_PORT, &port, CURLU_DEFAULT_PORT);
  curl_url_set(parsed.get(), CURLUPART_HOST, name.c_str(), 0);
  curl_url_get(parsed.get(), CURLUPART_URL, &renamed, 0);
  const auto text = [](const char* c) { return std::string(c != nullptr ? c : ""); };
  std::pair<std::string, std::string> result{text(renamed), fmt::format("{0}:{2}:{1}:{2}", name, text(host), text(port))};
  for (char* owned : {host, port, renamed}) curl_free(owned);
  return result;
}

}  // namespace

CurlTransfer::CurlTransfer(HttpRequest request, HttpHandlers handlers)
    : request_(std::move(request)), handlers_(std::move(handlers)), easy_(curl_easy_init()), url_(request_.url) {}

void CurlTransfer::Configure(const TlsSettings& tls, const std::string& user_agent) {
  CURL* easy = easy_.get();
  curl_easy_setopt(easy, CURLOPT_NOSIGNAL, 1L);
  curl_easy_setopt(easy, CURLOPT_USERAGENT, user_agent.c_str());
  // One connection per watch; HTTP/2 would put them all behind one flow-control window.
  curl_easy_setopt(easy, CURLOPT_HTTP_VERSION, static_cast<long>(CURL_HTTP_VERSION_1_1));
  curl_easy_setopt(easy, CURLOPT_PROTOCOLS_STR, "http,https");
  curl_easy_setopt(easy, CURLOPT_CONNECTTIMEOUT_MS, kConnectTimeoutMs);
  curl_easy_setopt(easy, CURLOPT_TIMEOUT_MS, static_cast<long>(request_.timeout.count()));
  curl_easy_setopt(easy, CURLOPT_TCP_KEEPALIVE, 1L);
  curl_easy_setopt(easy, CURLOPT_TCP_KEEPIDLE, kKeepAliveSeconds);
  curl_easy_setopt(easy, CURLOPT_TCP_KEEPINTVL, kKeepAliveSeconds);
  curl_easy_setopt(easy, CURLOPT_SOCKOPTFUNCTION, &OnSocketMade);
  curl_easy_setopt(easy, CURLOPT_MAXAGE_CONN, kLongestIdleSeconds);
  curl_easy_setopt(easy, CURLOPT_UPLOAD_BUFFERSIZE, 16L * 1024);
  curl_easy_setopt(easy, CURLOPT_WRITEFUNCTION, &OnBody);
  curl_easy_setopt(easy, CURLOPT_WRITEDATA, this);
  curl_easy_setopt(easy, CURLOPT_HEADERFUNCTION, &OnHeader);
  curl_easy_setopt(easy, CURLOPT_HEADERDATA, this);
  curl_easy_setopt(easy, CURLOPT_PRIVATE, this);
  curl_easy_setopt(easy, CURLOPT_ERRORBUFFER, why_.data());
  ConfigureTls(tls);
  ConfigureRequest();
}

void CurlTransfer::ConfigureTls(const TlsSettings& tls) {
  CURL* easy = easy_.get();
  curl_easy_setopt(easy, CURLOPT_SSLVERSION, static_cast<long>(CURL_SSLVERSION_TLSv1_2));
  // The distribution's default is the system's CAs.
  curl_easy_setopt(easy, CURLOPT_CAPATH, nullptr);
  curl_easy_setopt(easy, CURLOPT_CAINFO, tls.ca_file.empty() ? nullptr : tls.ca_file.c_str());
  curl_easy_setopt(easy, CURLOPT_CA_CACHE_TIMEOUT, 300L);
  if (!tls.ca_pem.empty()) SetBlob(easy, CURLOPT_CAINFO_BLOB, tls.ca_pem);
  if (!tls.client_cert_pem.empty()) {
    SetBlob(easy, CURLOPT_SSLCERT_BLOB, tls.client_cert_pem);
    SetBlob(easy, CURLOPT_SSLKEY_BLOB, tls.client_key_pem);
  }
  if (tls.insecure) {
    curl_easy_setopt(easy, CURLOPT_SSL_VERIFYPEER, 0L);
    curl_easy_setopt(easy, CURLOPT_SSL_VERIFYHOST, 0L);
  }
  if (!tls.server_name.empty()) {
    auto [url, rule] = Rename(request_.url, tls.server_name);
    url_ = std::move(url);
    connect_to_.reset(curl_slist_append(nullptr, rule.c_str()));
    curl_easy_setopt(easy, CURLOPT_CONNECT_TO, connect_to_.get());
  }
}

void CurlTransfer::ConfigureRequest() {
  CURL* easy = easy_.get();
  curl_easy_setopt(easy, CURLOPT_URL, url_.c_str());
  // Without this curl asks first whether a large body is welcome.
  headers_.reset(curl_slist_append(nullptr, "Expect:"));
  for (const std::string& header : request_.headers) curl_slist_append(headers_.get(), header.c_str());
  curl_easy_setopt(easy, CURLOPT_HTTPHEADER, headers_.get());
  if (request_.method == "GET") return;
  if (!request_.body.empty() || request_.method == "POST") {
    curl_easy_setopt(easy, CURLOPT_POSTFIELDS, request_.body.c_str());
    curl_easy_setopt(easy, CURLOPT_POSTFIELDSIZE_LARGE, static_cast<curl_off_t>(request_.body.size()));
  }
  curl_easy_setopt(easy, CURLOPT_CUSTOMREQUEST, request_.method.c_str());
}

bool CurlTransfer::Streams() const {
  long status = 0;
  curl_easy_getinfo(easy_.get(), CURLINFO_RESPONSE_CODE, &status);
  return handlers_.data != nullptr && status >= 200 && status < 300;
}

std::size_t CurlTransfer::OnBody(char* bytes, std::size_t size, std::size_t count, void* self) {
  auto& transfer = *static_cast<CurlTransfer*>(self);
  std::string& target = transfer.Streams() ? transfer.unseen_ : transfer.body_;
  if (target.size() + size * count > transfer.request_.largest_answer) {
    transfer.too_large_ = true;
    return 0;  // makes curl end the transfer
  }
  target.append(bytes, size * count);
  transfer.on_activity(transfer);
  return size * count;
}

std::size_t CurlTransfer::OnHeader(char*, std::size_t size, std::size_t count, void* self) {
  auto& transfer = *static_cast<CurlTransfer*>(self);
  transfer.answering = true;
  transfer.on_activity(transfer);
  return size * count;
}

void CurlTransfer::Finish(CURLcode code) {
  if (code != CURLE_OK) return Finish(FailureOf(code));
  HttpResponse response;
  long status = 0;
  curl_off_t retry_after = 0;
  curl_easy_getinfo(easy_.get(), CURLINFO_RESPONSE_CODE, &status);
  curl_easy_getinfo(easy_.get(), CURLINFO_RETRY_AFTER, &retry_after);
  response.status = static_cast<int>(status);
  if (retry_after > 0) response.retry_after = std::chrono::seconds(retry_after);
  curl_header* header = nullptr;
  for (std::size_t i = 0; curl_easy_header(easy_.get(), "warning", i, CURLH_HEADER, -1, &header) == CURLHE_OK; ++i) {
    response.warnings.emplace_back(header->value);
  }
  response.body = std::move(body_);
  result_ = std::move(response);
}

Error CurlTransfer::FailureOf(CURLcode code) const {
  if (too_large_) return {ErrorCode::kInternal, fmt::format("the answer is larger than {} bytes", request_.largest_answer)};
  Error error{ErrorCode::kUnavailable, why_[0] != '\0' ? why_.data() : curl_easy_strerror(code)};
  switch (code) {
    case CURLE_OPERATION_TIMEDOUT:
      error.code = ErrorCode::kDeadlineExceeded;
      break;
    case CURLE_COULDNT_RESOLVE_HOST:
    case CURLE_COULDNT_CONNECT:
    case CURLE_SSL_CONNECT_ERROR:
      error.not_sent = true;
      break;
    case CURLE_URL_MALFORMAT:
    case CURLE_UNSUPPORTED_PROTOCOL:
    case CURLE_SSL_CERTPROBLEM:
    case CURLE_SSL_CACERT_BADFILE:
      error.code = ErrorCode::kInvalidArgument;
      break;
    default:
      break;
  }
  return error;
}

void CurlTransfer::Deliver() {
  if (!unseen_.empty()) handlers_.data(std::exchange(unseen_, {}));
  if (aborted || !result_) return;
  handlers_.done(*std::exchange(result_, std::nullopt));
}

}  // namespace cd::kube
