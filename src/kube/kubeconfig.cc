#include "src/kube/kubeconfig.h"

#include <openssl/evp.h>

#include <fmt/format.h>
#include <algorithm>
#include <nlohmann/json.hpp>

#include "src/base/files.h"
#include "src/base/json_text.h"
#include "src/base/text.h"

namespace cd::kube {

using nlohmann::json;

namespace {

namespace fs = std::filesystem;

constexpr std::size_t kLargestFile = 1 << 20;

bool Flag(const json& object, const char* name) {
  const auto it = object.find(name);
  return it != object.end() && it->is_boolean() && it->get<bool>();
}

// Strict: OpenSSL's decoder passes over blanks, takes '-' for an end, and counts what it made of padding.
Result<std::string> DecodeBase64(std::string_view text, const char* field) {
  constexpr std::string_view kAlphabet = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
  while (!text.empty() && (text.back() == '\n' || text.back() == '\r' || text.back() == ' ')) text.remove_suffix(1);
  const std::size_t data = std::min(text.find_first_not_of(kAlphabet), text.size());
  const std::size_t padding = text.size() - data;
  const bool valid = text.size() % 4 == 0 && padding <= 2 && text.substr(data).find_first_not_of('=') == std::string_view::npos;
  if (!valid) return Fail(ErrorCode::kInvalidArgument, fmt::format("{}: must be base64", field));
  std::string out(text.size(), '\0');
  const int size = EVP_DecodeBlock(reinterpret_cast<unsigned char*>(out.data()),
                                   reinterpret_cast<const unsigned char*>(text.data()), static_cast<int>(text.size()));
  if (size < static_cast<int>(padding)) return Fail(ErrorCode::kInvalidArgument, fmt::format("{}: must be base64", field));
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
  // It becomes a header line.
  if (Printable(config.token, config.token.size()) != config.token) {
    return Fail(ErrorCode::kInvalidArgument, "user.token: must be text in one line");
  }
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

Result<ClientConfig> ParseKubeconfig(std::string_view text, const fs::path& folder) {
  const json file = json::parse(text, nullptr, false);
  if (!file.is_object()) {
    return Fail(ErrorCode::kInvalidArgument,
                "must be JSON; write one with: kubectl config view --raw --minify --flatten -o json");
  }
  return Read(file, folder);
}

Result<ClientConfig> LoadKubeconfig(const fs::path& path) {
  const auto content = ReadKernelFile(path, kLargestFile);
  if (!content) return Fail(content.error());
  auto config = ParseKubeconfig(*content, fs::absolute(path).parent_path());
  if (!config) return Fail(Annotate(std::move(config.error()), path.string()));
  return config;
}

}  // namespace cd::kube
