#include "src/webhook/webhook.h"

#include <gmock/gmock.h>

#include <fstream>
#include <nlohmann/json.hpp>

#include "src/api/conversion.h"
#include "src/base/loop_for_test.h"
#include "src/base/temp_dir.h"
#include "src/webhook/https_client_for_test.h"

namespace cd::webhook {
namespace {

using nlohmann::json;
using testing::HasSubstr;

class WebhookTest : public testing::Test {
 protected:
  WebhookTest() { EXPECT_TRUE(webhook.Listen()); }
  // As the kubelet changes the volume of a Secret: a new directory, then one rename.
  void Mount(const KeyPair& identity) {
    const auto version = dir.path() / ("version-" + std::to_string(++versions_));
    std::filesystem::create_directory(version);
    std::ofstream(version / "tls.crt") << identity.certificate;
    std::ofstream(version / "tls.key") << identity.key;
    std::filesystem::create_symlink(version.filename(), dir.path() / "..data_tmp");
    std::filesystem::rename(dir.path() / "..data_tmp", dir.path() / "..data");
    for (const char* name : {"tls.crt", "tls.key"}) {
      if (!std::filesystem::is_symlink(dir.path() / name))
        std::filesystem::create_symlink(std::filesystem::path("..data") / name, dir.path() / name);
    }
  }
  void MountAnother() { Mount(IssueServer(authority, {kServerName}, DayAround(SystemClock().WallNow())).value()); }
  Reply Send(const std::string& path, const std::string& body) {
    return HttpsClient(webhook.port(), authority.certificate).Send(path, body);
  }
  static WebhookOptions OptionsFor(const std::filesystem::path& dir) {
    WebhookOptions options;
    options.tls_dir = dir;
    options.https.address = "127.0.0.1";
    return options;
  }

  TempDir dir;
  LoopForTest loop;
  const KeyPair authority = MakeAuthority("ca", DayAround(SystemClock().WallNow())).value();
  Webhook webhook{loop.loop(), OptionsFor(dir.path())};

 private:
  int versions_ = 0;
};

TEST_F(WebhookTest, is_ready_once_there_is_a_certificate) {
  EXPECT_THAT(webhook.WhyNotReady(), HasSubstr("tls.crt"));
  EXPECT_EQ(Send("/convert", "{}").status, 0);
  MountAnother();
  ASSERT_TRUE(loop.RunUntil([&] { return webhook.WhyNotReady().empty(); })) << webhook.WhyNotReady();
  EXPECT_EQ(Send("/convert", "{}").status, 400);
}

TEST_F(WebhookTest, goes_on_with_the_former_certificate_while_there_is_no_other) {
  MountAnother();
  ASSERT_TRUE(loop.RunUntil([&] { return webhook.WhyNotReady().empty(); }));
  Mount({"no certificate", "no key"});
  ASSERT_TRUE(loop.RunUntil([&] { return !webhook.problem().empty(); }));
  EXPECT_EQ(webhook.WhyNotReady(), "");
  EXPECT_EQ(Send("/convert", "{}").status, 400);
}

TEST_F(WebhookTest, converts_what_the_api_server_sends) {
  MountAnother();
  ASSERT_TRUE(loop.RunUntil([&] { return webhook.WhyNotReady().empty(); }));
  const json review = json::parse(R"({"apiVersion":"apiextensions.k8s.io/v1","kind":"ConversionReview","request":{"uid":"u",
    "desiredAPIVersion":"resource.nvidia.com/v1beta2","objects":[{"apiVersion":"resource.nvidia.com/v1beta1","kind":"ComputeDomain",
    "metadata":{"name":"cd"},"spec":{"numNodes":2,"channel":{"resourceClaimTemplate":{"name":"t"}}}}]}})");
  const Reply reply = Send("/convert?timeout=30s", review.dump());
  ASSERT_EQ(reply.status, 200) << reply.error;
  const json response = json::parse(reply.body)["response"];
  EXPECT_EQ(response["result"]["status"], "Success");
  EXPECT_EQ(response["convertedObjects"][0]["apiVersion"], api::kV1Beta2);
  EXPECT_EQ(response["convertedObjects"][0]["spec"]["fabricPolicy"], "Optional");
}

}  // namespace
}  // namespace cd::webhook
