// What a client that trusts the CA makes of the certificates; the rest is https_server_test.cc.
#include "src/webhook/certificates.h"

#include <gmock/gmock.h>
#include <openssl/bio.h>
#include <openssl/pem.h>
#include <openssl/x509.h>
#include <openssl/x509v3.h>

#include <memory>

namespace cd::webhook {
namespace {

using testing::HasSubstr;

const WallTime kNow = SystemClock().WallNow();
const Lifetime kDay{kNow - std::chrono::hours(1), kNow + std::chrono::hours(23)};

using Certificate = std::unique_ptr<X509, decltype(&X509_free)>;

Certificate Read(const std::string& pem) {
  BIO* in = BIO_new_mem_buf(pem.data(), static_cast<int>(pem.size()));
  Certificate certificate(PEM_read_bio_X509(in, nullptr, nullptr, nullptr), X509_free);
  BIO_free(in);
  return certificate;
}

// X509_V_OK, or why not, at `at`.
int Verify(const std::string& authority, const std::string& server, WallTime at) {
  const Certificate root = Read(authority);
  const Certificate leaf = Read(server);
  X509_STORE* store = X509_STORE_new();
  X509_STORE_add_cert(store, root.get());
  X509_STORE_CTX* context = X509_STORE_CTX_new();
  X509_STORE_CTX_init(context, store, leaf.get(), nullptr);
  X509_STORE_CTX_set_purpose(context, X509_PURPOSE_SSL_SERVER);
  X509_STORE_CTX_set_time(context, 0, std::chrono::system_clock::to_time_t(at));
  X509_verify_cert(context);
  const int result = X509_STORE_CTX_get_error(context);
  X509_STORE_CTX_free(context);
  X509_STORE_free(store);
  return result;
}

class CertificatesTest : public testing::Test {
 protected:
  const KeyPair authority = MakeAuthority("computedomain-webhook", kDay).value();
  const KeyPair server = IssueServer(authority, {"webhook.ns.svc", "webhook.ns.svc.cluster.local"}, kDay).value();
};

TEST_F(CertificatesTest, server_is_trusted_by_its_authority_for_its_names_and_time) {
  EXPECT_EQ(Verify(authority.certificate, server.certificate, kNow), X509_V_OK);
  EXPECT_EQ(Verify(authority.certificate, server.certificate, kDay.begin - std::chrono::hours(1)), X509_V_ERR_CERT_NOT_YET_VALID);
  EXPECT_EQ(Verify(authority.certificate, server.certificate, kDay.end + std::chrono::hours(1)), X509_V_ERR_CERT_HAS_EXPIRED);
  const Certificate leaf = Read(server.certificate);
  EXPECT_EQ(X509_check_host(leaf.get(), "webhook.ns.svc", 0, 0, nullptr), 1);
  EXPECT_EQ(X509_check_host(leaf.get(), "webhook.ns.svc.cluster.local", 0, 0, nullptr), 1);
  EXPECT_EQ(X509_check_host(leaf.get(), "other.ns.svc", 0, 0, nullptr), 0);
}

TEST_F(CertificatesTest, another_authority_of_the_same_name_is_another_one) {
  const KeyPair other = MakeAuthority("computedomain-webhook", kDay).value();
  EXPECT_NE(Verify(other.certificate, server.certificate, kNow), X509_V_OK);
}

TEST_F(CertificatesTest, what_is_no_authority_is_refused) {
  for (const KeyPair& wrong : {KeyPair{}, server, KeyPair{authority.certificate, server.key}, KeyPair{"x", authority.key}}) {
    const auto issued = IssueServer(wrong, {"a"}, kDay);
    ASSERT_FALSE(issued);
    EXPECT_EQ(issued.error().code, ErrorCode::kInvalidArgument);
    EXPECT_THAT(issued.error().message, Not(HasSubstr("PRIVATE KEY")));
  }
  EXPECT_FALSE(IssueServer(authority, {}, kDay));
}

}  // namespace
}  // namespace cd::webhook
