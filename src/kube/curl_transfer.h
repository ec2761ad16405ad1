// One transfer of the HTTP engine: an easy handle and what libcurl's callbacks leave behind. For http.cc.
#pragma once

#include <curl/curl.h>

#include <array>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "src/kube/http.h"

namespace cd::kube {

struct CurlEasyDeleter {
  void operator()(CURL* easy) const { curl_easy_cleanup(easy); }
};
struct CurlListDeleter {
  void operator()(curl_slist* list) const { curl_slist_free_all(list); }
};

// Callbacks of libcurl only store here: user code runs after curl_multi_socket_action returned, when it may change transfers
// freely.
class CurlTransfer {
 public:
  CurlTransfer(HttpRequest request, HttpHandlers handlers);

  // Sets every option; `tls` and `user_agent` outlive the transfer.
  void Configure(const TlsSettings& tls, const std::string& user_agent);
  CURL* easy() const { return easy_.get(); }
  const HttpRequest& request() const { return request_; }

  // Gives what has arrived, and at the end the result, to the handlers. Stops as soon as `aborted` is set by one of them.
  void Deliver();
  bool SomethingArrived() const { return !unseen_.empty() || result_.has_value(); }
  void Finish(CURLcode code);
  void Finish(Error error) { result_ = Fail(std::move(error)); }

  bool aborted = false;    // its owner let go of it
  bool attached = false;   // in the multi handle
  bool queued = false;     // waits for Deliver
  bool answering = false;  // the first byte of the answer came
  SteadyTime last_activity{};
  std::function<void(CurlTransfer&)> on_activity;

 private:
  static std::size_t OnBody(char* bytes, std::size_t size, std::size_t count, void* self);
  static std::size_t OnHeader(char* bytes, std::size_t size, std::size_t count, void* self);
  void ConfigureRequest();
  void ConfigureTls(const TlsSettings& tls);
  bool Streams() const;
  Error FailureOf(CURLcode code) const;

  const HttpRequest request_;
  const HttpHandlers handlers_;
  std::unique_ptr<CURL, CurlEasyDeleter> easy_;
  std::unique_ptr<curl_slist, CurlListDeleter> headers_;
  std::unique_ptr<curl_slist, CurlListDeleter> connect_to_;
  std::string url_;
  std::string unseen_;  // streamed bytes not yet delivered
  std::string body_;
  std::array<char, CURL_ERROR_SIZE> why_{};  // what curl says beyond its code, e.g. address and port
  bool too_large_ = false;
  std::optional<Result<HttpResponse>> result_;
};

}  // namespace cd::kube
