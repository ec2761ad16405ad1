// Where the API server is and how to prove who we are.
#pragma once

#include <filesystem>
#include <string>
#include <string_view>

#include "src/base/result.h"
#include "src/kube/http.h"

namespace cd::kube {

struct ClientConfig {
  std::string server = {};  // "https://10.96.0.1:443", no trailing slash
  TlsSettings tls = {};
  std::string token = {};                 // fixed bearer token
  std::filesystem::path token_file = {};  // read every minute; beats `token`
  std::string ns = {};                    // the namespace we run in
};

// What a pod is given: address from the environment, CA, token and namespace from the service account's folder under `root`.
Result<ClientConfig> InClusterConfig(const std::filesystem::path& root = "/");
Result<ClientConfig> InClusterConfig(std::string_view host, std::string_view port, const std::filesystem::path& root);

}  // namespace cd::kube
