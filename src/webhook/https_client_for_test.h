// A client as the API server is one: trusts one CA, keeps its connection.
#pragma once

#include <curl/curl.h>

#include <string>

#include "src/webhook/certificates.h"

namespace cd::webhook {

inline constexpr char kServerName[] = "webhook.test.svc";

inline Lifetime DayAround(WallTime now) {
  return {now - std::chrono::hours(1), now + std::chrono::hours(23)};
}

struct Reply {
  long status = 0;  // 0: none, see error
  std::string body;
  std::string error;
  long connects = 0;  // connections made for it
};

class HttpsClient {
 public:
  // nullptr trusts nobody.
  HttpsClient(std::uint16_t port, std::string authority)
      : port_(port), authority_(std::move(authority)), curl_(curl_easy_init()) {
    resolve_ = curl_slist_append(nullptr, (std::string(kServerName) + ":" + std::to_string(port) + ":127.0.0.1").c_str());
  }
  ~HttpsClient() {
    curl_easy_cleanup(curl_);
    curl_slist_free_all(resolve_);
  }
  HttpsClient(const HttpsClient&) = delete;
  HttpsClient& operator=(const HttpsClient&) = delete;

  Reply Send(const std::string& path, const std::string& body, bool post = true) {
    Reply reply;
    curl_blob trusted{authority_.data(), authority_.size(), CURL_BLOB_COPY};
    char why[CURL_ERROR_SIZE] = "";
    const std::string url = "https://" + std::string(kServerName) + ":" + std::to_string(port_) + path;
    curl_easy_reset(curl_);
    curl_easy_setopt(curl_, CURLOPT_URL, url.c_str());
    curl_easy_setopt(curl_, CURLOPT_RESOLVE, resolve_);
    curl_easy_setopt(curl_, CURLOPT_CAINFO_BLOB, &trusted);
    curl_easy_setopt(curl_, CURLOPT_ERRORBUFFER, why);
    curl_easy_setopt(curl_, CURLOPT_NOSIGNAL, 1L);
    curl_easy_setopt(curl_, CURLOPT_NOPROXY, "*");
    curl_easy_setopt(curl_, CURLOPT_TIMEOUT, 60L);
    if (post) {
      curl_easy_setopt(curl_, CURLOPT_POSTFIELDSIZE_LARGE, static_cast<curl_off_t>(body.size()));
      curl_easy_setopt(curl_, CURLOPT_POSTFIELDS, body.data());
    }
    curl_easy_setopt(curl_, CURLOPT_WRITEDATA, &reply.body);
    curl_easy_setopt(curl_, CURLOPT_WRITEFUNCTION, &Append);
    if (curl_easy_perform(curl_) != CURLE_OK) reply.error = *why == '\0' ? "failed" : why;
    curl_easy_getinfo(curl_, CURLINFO_RESPONSE_CODE, &reply.status);
    curl_easy_getinfo(curl_, CURLINFO_NUM_CONNECTS, &reply.connects);
    return reply;
  }

 private:
  static std::size_t Append(char* data, std::size_t, std::size_t size, void* out) {
    static_cast<std::string*>(out)->append(data, size);
    return size;
  }

  const std::uint16_t port_;
  std::string authority_;
  CURL* curl_;
  curl_slist* resolve_;
};

}  // namespace cd::webhook
