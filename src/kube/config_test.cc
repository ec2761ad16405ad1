#include "src/kube/config.h"

#include <gtest/gtest.h>

#include <nlohmann/json.hpp>

#include "src/base/files.h"
#include "src/base/manual_executor.h"
#include "src/base/temp_dir.h"
#include "src/kube/kubeconfig.h"
#include "src/kube/token_source.h"

namespace cd::kube {
namespace {

namespace fs = std::filesystem;
using nlohmann::json;

class Config : public testing::Test {
 protected:
  void Write(const std::string& path, const std::string& content) {
    fs::create_directories((root_ / path).parent_path());
    ASSERT_TRUE(ReplaceFile(root_ / path, content));
  }
  Result<ClientConfig> Load(const json& config) {
    Write("config", config.dump());
    return LoadKubeconfig(root_ / "config");
  }
  static json Kubeconfig() {
    return json::parse(R"({"current-context": "c",
      "contexts": [{"name": "other", "context": {}}, {"name": "c", "context": {"cluster": "k", "user": "u", "namespace": "n"}}],
      "clusters": [{"name": "k", "cluster": {"server": "https://h:1/", "certificate-authority-data": "Q0E=", "tls-server-name": "t"}}],
      "users": [{"name": "u", "user": {"token": "secret"}}]})");
  }

  const TempDir temp_;
  const fs::path root_ = temp_.path();
};

constexpr char kAccount[] = "var/run/secrets/kubernetes.io/serviceaccount/";

TEST_F(Config, pod_reads_its_service_account) {
  Write(std::string(kAccount) + "ca.crt", "CA");
  Write(std::string(kAccount) + "token", "secret");
  Write(std::string(kAccount) + "namespace", "driver");
  const auto config = InClusterConfig("fd00::1", "443", root_);
  ASSERT_TRUE(config) << config.error().message;
  EXPECT_EQ(config->server, "https://[fd00::1]:443");
  EXPECT_EQ(config->ns, "driver");
  EXPECT_EQ(config->tls.ca_file, root_ / kAccount / "ca.crt");
  EXPECT_EQ(config->token_file, root_ / kAccount / "token");
  EXPECT_EQ(InClusterConfig("10.0.0.1", "443", root_)->server, "https://10.0.0.1:443");
}

TEST_F(Config, outside_a_pod_the_error_says_so) {
  EXPECT_EQ(InClusterConfig("", "", root_).error().code, ErrorCode::kFailedPrecondition);
  EXPECT_NE(InClusterConfig("10.0.0.1", "443", root_).error().message.find("service account"), std::string::npos);
}

TEST_F(Config, kubeconfig_of_the_current_context) {
  const auto config = Load(Kubeconfig());
  ASSERT_TRUE(config) << config.error().message;
  EXPECT_EQ(config->server, "https://h:1");
  EXPECT_EQ(config->tls.ca_pem, "CA");
  EXPECT_EQ(config->tls.server_name, "t");
  EXPECT_EQ(config->token, "secret");
  EXPECT_EQ(config->ns, "n");
}

TEST_F(Config, kubeconfig_data_is_strict_base64_in_one_line_or_with_a_line_end) {
  for (const auto& [data, pem] : {std::pair{"Q0E=", "CA"}, {"Q0E=\n", "CA"}, {"Q0FD", "CAC"}, {"Qw==\r\n", "C"}}) {
    json file = Kubeconfig();
    file["clusters"][0]["cluster"]["certificate-authority-data"] = data;
    const auto config = Load(file);
    ASSERT_TRUE(config) << data << config.error().message;
    EXPECT_EQ(config->tls.ca_pem, pem) << data;
  }
  for (const char* data : {"Q0E", "Q0E-", "Q0FD-===", "====", "Q=E=", "Q0 E=", "Q0E=Q0E="}) {
    json file = Kubeconfig();
    file["clusters"][0]["cluster"]["certificate-authority-data"] = data;
    EXPECT_FALSE(Load(file)) << data;
  }
}

TEST_F(Config, kubeconfig_token_cannot_add_a_header) {
  json file = Kubeconfig();
  file["users"][0]["user"]["token"] = "secret\r\nImpersonate-User: admin";
  const auto config = Load(file);
  ASSERT_FALSE(config);
  EXPECT_NE(config.error().message.find("user.token"), std::string::npos);
  EXPECT_EQ(config.error().message.find("secret"), std::string::npos);
}

TEST_F(Config, kubeconfig_files_are_relative_to_it) {
  Write("pki/ca", "CA-file");
  Write("pki/cert", "CERT");
  Write("pki/key", "KEY");
  json file = Kubeconfig();
  file["clusters"][0]["cluster"] = {{"server", "https://h:1"}, {"certificate-authority", "pki/ca"}};
  file["users"][0]["user"] = {{"client-certificate", "pki/cert"}, {"client-key", "pki/key"}, {"tokenFile", "pki/token"}};
  const auto config = Load(file);
  ASSERT_TRUE(config) << config.error().message;
  EXPECT_EQ(config->tls.ca_pem, "CA-file");
  EXPECT_EQ(config->tls.client_cert_pem, "CERT");
  EXPECT_EQ(config->tls.client_key_pem, "KEY");
  EXPECT_EQ(config->token_file, root_ / "pki/token");
}

TEST_F(Config, kubeconfig_errors_name_field_and_remedy) {
  Write("config", "apiVersion: v1\n");
  EXPECT_NE(LoadKubeconfig(root_ / "config").error().message.find("-o json"), std::string::npos);
  const auto error_after = [&](const json::json_pointer& path, const json& value) {
    json file = Kubeconfig();
    file[path] = value;
    const auto config = Load(file);
    return config ? "" : config.error().message;
  };
  using P = json::json_pointer;
  EXPECT_NE(error_after(P("/current-context"), "x").find("contexts: must have an entry named \"x\""), std::string::npos);
  EXPECT_NE(error_after(P("/clusters/0/cluster"), {{"server", "https://h"}}).find("certificate-authority"), std::string::npos);
  EXPECT_EQ(error_after(P("/clusters/0/cluster"), {{"server", "https://h"}, {"insecure-skip-tls-verify", true}}), "");
  EXPECT_NE(error_after(P("/users/0/user/exec"), json::object()).find("user.exec"), std::string::npos);
  EXPECT_NE(error_after(P("/users/0/user/client-key-data"), "Q0E=").find("must be set together"), std::string::npos);
  EXPECT_NE(error_after(P("/clusters/0/cluster/certificate-authority-data"), "%%%").find("must be base64"), std::string::npos);
}

TEST_F(Config, token_is_read_again_every_minute_and_kept_when_that_fails) {
  ManualClock clock;
  Write("token", "one\n");
  TokenSource tokens(clock, "", root_ / "token");
  EXPECT_EQ(tokens.Current(), "one");
  Write("token", "two");
  clock.Advance(std::chrono::seconds(59));
  EXPECT_EQ(tokens.Current(), "one");
  clock.Advance(std::chrono::seconds(1));
  EXPECT_EQ(tokens.Current(), "two");
  fs::remove(root_ / "token");
  clock.Advance(std::chrono::minutes(5));
  EXPECT_EQ(tokens.Current(), "two");
}

TEST_F(Config, refused_token_is_read_again_at_once) {
  ManualClock clock;
  Write("token", "one");
  TokenSource tokens(clock, "", root_ / "token");
  EXPECT_FALSE(tokens.Refused("one"));
  Write("token", "two");
  EXPECT_TRUE(tokens.Refused("one"));
  EXPECT_EQ(tokens.Current(), "two");
}

TEST_F(Config, fixed_token_has_no_successor) {
  ManualClock clock;
  TokenSource tokens(clock, "one", "");
  EXPECT_EQ(tokens.Current(), "one");
  EXPECT_FALSE(tokens.Refused("one"));
}

}  // namespace
}  // namespace cd::kube
