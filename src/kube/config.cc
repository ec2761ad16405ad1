#include "src/kube/config.h"

#include <fmt/format.h>
#include <cstdlib>

#include "src/base/files.h"

namespace cd::kube {

Result<ClientConfig> InClusterConfig(std::string_view host, std::string_view port, const std::filesystem::path& root) {
  if (host.empty() || port.empty()) {
    return Fail(ErrorCode::kFailedPrecondition,
                "KUBERNETES_SERVICE_HOST and KUBERNETES_SERVICE_PORT are not set: not running in a pod of a Kubernetes cluster");
  }
  const std::filesystem::path account = root / "var/run/secrets/kubernetes.io/serviceaccount";
  ClientConfig config;
  const bool ipv6 = host.find(':') != std::string_view::npos;
  config.server = ipv6 ? fmt::format("https://[{}]:{}", host, port) : fmt::format("https://{}:{}", host, port);
  config.tls.ca_file = account / "ca.crt";
  config.token_file = account / "token";
  // The kubelet projects these as symbolic links.
  for (const std::filesystem::path& file : {std::filesystem::path(config.tls.ca_file), config.token_file}) {
    if (auto content = ReadKernelFile(file); !content) return Fail(Annotate(content.error(), "service account"));
  }
  auto ns = ReadKernelFile(account / "namespace");
  if (!ns) return Fail(Annotate(ns.error(), "service account"));
  config.ns = *std::move(ns);
  return config;
}

Result<ClientConfig> InClusterConfig(const std::filesystem::path& root) {
  const auto variable = [](const char* name) {
    const char* value = std::getenv(name);
    return std::string_view(value != nullptr ? value : "");
  };
  return InClusterConfig(variable("KUBERNETES_SERVICE_HOST"), variable("KUBERNETES_SERVICE_PORT"), root);
}

}  // namespace cd::kube
