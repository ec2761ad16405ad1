#include "src/kube/kubeconfig.h"

#include <openssl/evp.h>

#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include "src/base/files.h"
#include "src/kube/json_text.h"

namespace cd::kube {

using nlohmann::json;

namespace {

namespace fs = std::filesystem;

constexpr std::size_t kLargestFile = 1 << 20;

bool Flag(const json& object, const char* name) {
  const auto it = object.find(name);
  return it != object.end() && it->is_boolean() && it->get<bool>();
}

Result<std::string> DecodeBase64(const std::string& text, const char* field) {
  std::string out(text.size(), '\0');
  const int size = EVP_DecodeBlock(reinterpret_cast<unsigned char*>(out.data()),
                                   reinterpret_cast<const unsigned char*>(text.data()), static_cast<int>(text.size()));
  if (size < 0) return Fail(ErrorCode::kInvalidArgument, fmt::format("{}: must be base64", field));
  std::size_t padding = 0;
  while (padding < 2 && padding < text.size() && text[text.size() - 1 - padding] == '=') ++padding;
  out.resize(static_cast<std::size_t>(size) - padding);
  return out;
}

// The entry `name` of a list like {"name": …, "<kind>": {…}}.
Result<json> Entry(const json& config, const char* list, const char* kind, const std::string& name) {
  const auto entries = config.find(list);
  if (entries != config.end() && entries->is_array()) {
    for (const json& entry : *entries) {
      if (TextOf(entry, "name") == name && entry.contains(kind) && entry[kind].is_object()) return entry[kind];
    }
  }
  return Fail(ErrorCode::kInvalidArgument, fmt::format("{}: must have an entry named \"{}\"", list, name));
}

// `<field>-data` in base64, or the content of the file `<field>`; empty when there is neither.
Result<std::string> Pem(const json& object, const std::string& field, const fs::path& folder) {
  const std::string data = TextOf(object, (field + "-data").c_str());
  if (!data.empty()) return DecodeBase64(data, (field + "-data").c_str());
  const std::string path = TextOf(object, field.c_str());
  if (path.empty()) return std::string();
  return ReadKernelFile(folder / path, kLargestFile);
}

Status ReadCluster(const json& cluster, const fs::path& folder, ClientConfig& config) {
  config.server = TextOf(cluster, "server");
  while (!config.server.empty() && config.server.back() == '/') config.server.pop_back();
  if (config.server.empty()) return Fail(ErrorCode::kInvalidArgument, "cluster.server: must be set");
  config.tls.server_name = TextOf(cluster, "tls-server-name");
  config.tls.insecure = Flag(cluster, "insecure-skip-tls-verify");
  if (!TextOf(cluster, "proxy-url").empty()) {
    return Fail(ErrorCode::kInvalidArgument, "cluster.proxy-url: not supported, set HTTPS_PROXY instead");
  }
  auto ca = Pem(cluster, "certificate-authority", folder);
  if (!ca) return Fail(std::move(ca.error()));
  config.tls.ca_pem = *std::move(ca);
  if (config.tls.ca_pem.empty() && !config.tls.insecure) {
    return Fail(ErrorCode::kInvalidArgument,
                "cluster.certificate-authority: must be set, unless insecure-skip-tls-verify is true");
  }
  return {};
}

Status ReadUser(const json& user, const fs::path& folder, ClientConfig& config) {
  for (const char* plugin : {"exec", "auth-provider", "username"}) {
    if (user.contains(plugin)) {
      return Fail(ErrorCode::kInvalidArgument,
                  fmt::format("user.{}: not supported, use a token or a client certificate", plugin));
    }
  }
  config.token = TextOf(user, "token");
  const std::string token_file = TextOf(user, "tokenFile");
  if (!token_file.empty()) config.token_file = folder / token_file;
  auto certificate = Pem(user, "client-certificate", folder);
  if (!certificate) return Fail(std::move(certificate.error()));
  auto key = Pem(user, "client-key", folder);
  if (!key) return Fail(std::move(key.error()));
  if (certificate->empty() != key->empty()) {
    return Fail(ErrorCode::kInvalidArgument, "user.client-certificate and user.client-key: must be set together");
  }
  config.tls.client_cert_pem = *std::move(certificate);
  config.tls.client_key_pem = *std::move(key);
  return {};
}

Result<ClientConfig> Read(const json& file, const fs::path& folder) {
  auto context = Entry(file, "contexts", "context", TextOf(file, "current-context"));
  if (!context) return Fail(std::move(context.error()));
  auto cluster = Entry(file, "clusters", "cluster", TextOf(*context, "cluster"));
  if (!cluster) return Fail(std::move(cluster.error()));
  auto user = Entry(file, "users", "user", TextOf(*context, "user"));
  if (!user) return Fail(std::move(user.error()));
  ClientConfig config;
  config.ns = TextOf(*context, "namespace");
  if (config.ns.empty()) config.ns = "default";
  if (auto read = ReadCluster(*cluster, folder, config); !read) return Fail(std::move(read.error()));
  if (auto read = ReadUser(*user, folder, config); !read) return Fail(std::move(read.error()));
  return config;
}

}  // namespace

Result<ClientConfig> LoadKubeconfig(const fs::path& path) {
  auto content = ReadKernelFile(path, kLargestFile);
  if (!content) return Fail(std::move(content.error()));
  const json file = json::parse(*content, nullptr, false);
  if (!file.is_object()) {
    return Fail(
        ErrorCode::kInvalidArgument,
        fmt::format("{}: must be JSON; write one with: kubectl config view --raw --minify --flatten -o json", path.string()));
  }
  auto config = Read(file, fs::absolute(path).parent_path());
  if (!config) return Fail(Annotate(std::move(config.error()), path.string()));
  return config;
}

}  // namespace cd::kube
