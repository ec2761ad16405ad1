#include "src/webhook/certificates.h"

#include <openssl/bio.h>
#include <openssl/bn.h>
#include <openssl/ec.h>
#include <openssl/err.h>
#include <openssl/evp.h>
#include <openssl/pem.h>
#include <openssl/x509.h>
#include <openssl/x509v3.h>

#include <chrono>
#include <memory>

namespace cd::webhook {

namespace {

template <typename T, void (*kFree)(T*)>
struct Freed {
  void operator()(T* pointer) const { kFree(pointer); }
};
void FreeBio(BIO* bio) {
  BIO_free_all(bio);
}
using Bio = std::unique_ptr<BIO, Freed<BIO, FreeBio>>;
using Certificate = std::unique_ptr<X509, Freed<X509, X509_free>>;
using Key = std::unique_ptr<EVP_PKEY, Freed<EVP_PKEY, EVP_PKEY_free>>;
using Extension = std::unique_ptr<X509_EXTENSION, Freed<X509_EXTENSION, X509_EXTENSION_free>>;
using Number = std::unique_ptr<BIGNUM, Freed<BIGNUM, BN_free>>;

auto OpenSslFailed(const std::string& what) {
  char reason[256] = "no reason given";
  if (const unsigned long code = ERR_get_error(); code != 0) ERR_error_string_n(code, reason, sizeof reason);
  ERR_clear_error();
  return Fail(ErrorCode::kInternal, what + ": " + reason);
}

std::string Drain(BIO* bio) {
  char* data = nullptr;
  const long size = BIO_get_mem_data(bio, &data);
  return {data, static_cast<std::size_t>(size)};
}

Result<KeyPair> Encode(X509* certificate, EVP_PKEY* key) {
  const Bio certificate_out(BIO_new(BIO_s_mem()));
  const Bio key_out(BIO_new(BIO_s_mem()));
  if (PEM_write_bio_X509(certificate_out.get(), certificate) != 1 ||
      PEM_write_bio_PKCS8PrivateKey(key_out.get(), key, nullptr, nullptr, 0, nullptr, nullptr) != 1)
    return OpenSslFailed("write certificate");
  return KeyPair{Drain(certificate_out.get()), Drain(key_out.get())};
}

// 128 random bits: a certificate is told from its predecessor of the same name.
bool SetSerial(X509* certificate) {
  const Number serial(BN_new());
  return BN_rand(serial.get(), 127, BN_RAND_TOP_ANY, BN_RAND_BOTTOM_ANY) == 1 &&
         BN_to_ASN1_INTEGER(serial.get(), X509_get_serialNumber(certificate)) != nullptr;
}

bool SetTime(ASN1_TIME* out, WallTime time) {
  return ASN1_TIME_set(out, std::chrono::system_clock::to_time_t(time)) != nullptr;
}

bool AddExtension(X509* certificate, X509* issuer, int nid, const std::string& value) {
  X509V3_CTX context;
  X509V3_set_ctx_nodb(&context);
  X509V3_set_ctx(&context, issuer, certificate, nullptr, nullptr, 0);
  const Extension extension(X509V3_EXT_conf_nid(nullptr, &context, nid, value.c_str()));
  return extension != nullptr && X509_add_ext(certificate, extension.get(), -1) == 1;
}

// Version 3, not signed yet.
Certificate NewCertificate(const std::string& common_name, EVP_PKEY* key, const Lifetime& lifetime) {
  Certificate certificate(X509_new());
  X509_NAME* name = certificate == nullptr ? nullptr : X509_get_subject_name(certificate.get());
  const auto* text = reinterpret_cast<const unsigned char*>(common_name.c_str());
  const bool made = name != nullptr && X509_set_version(certificate.get(), X509_VERSION_3) == 1 && SetSerial(certificate.get()) &&
                    SetTime(X509_getm_notBefore(certificate.get()), lifetime.begin) &&
                    SetTime(X509_getm_notAfter(certificate.get()), lifetime.end) &&
                    X509_set_pubkey(certificate.get(), key) == 1 &&
                    X509_NAME_add_entry_by_txt(name, "CN", MBSTRING_UTF8, text, -1, -1, 0) == 1;
  return made ? std::move(certificate) : nullptr;
}

}  // namespace

Result<KeyPair> MakeAuthority(const std::string& common_name, const Lifetime& lifetime) {
  const Key key(EVP_EC_gen("P-256"));
  if (key == nullptr) return OpenSslFailed("make the key of a CA");
  const Certificate certificate = NewCertificate(common_name, key.get(), lifetime);
  if (certificate == nullptr) return OpenSslFailed("make a CA");
  X509* const self = certificate.get();
  if (X509_set_issuer_name(self, X509_get_subject_name(self)) != 1 ||
      !AddExtension(self, self, NID_basic_constraints, "critical,CA:TRUE,pathlen:0") ||
      !AddExtension(self, self, NID_key_usage, "critical,keyCertSign,cRLSign") ||
      !AddExtension(self, self, NID_subject_key_identifier, "hash") || X509_sign(self, key.get(), EVP_sha256()) == 0)
    return OpenSslFailed("sign a CA");
  return Encode(self, key.get());
}

Result<KeyPair> IssueServer(const KeyPair& authority, const std::vector<std::string>& dns_names, const Lifetime& lifetime) {
  if (dns_names.empty()) return Fail(ErrorCode::kInvalidArgument, "a server's certificate needs a name");
  const Bio certificate_in(BIO_new_mem_buf(authority.certificate.data(), static_cast<int>(authority.certificate.size())));
  const Bio key_in(BIO_new_mem_buf(authority.key.data(), static_cast<int>(authority.key.size())));
  const Certificate issuer(PEM_read_bio_X509(certificate_in.get(), nullptr, nullptr, nullptr));
  const Key issuer_key(PEM_read_bio_PrivateKey(key_in.get(), nullptr, nullptr, nullptr));
  if (issuer == nullptr || issuer_key == nullptr || X509_check_private_key(issuer.get(), issuer_key.get()) != 1 ||
      X509_check_ca(issuer.get()) != 1) {
    ERR_clear_error();
    return Fail(ErrorCode::kInvalidArgument, "the CA is no pair of a CA's certificate and its key in PEM");
  }
  const Key key(EVP_EC_gen("P-256"));
  if (key == nullptr) return OpenSslFailed("make a server's key");
  const Certificate certificate = NewCertificate(dns_names.front(), key.get(), lifetime);
  if (certificate == nullptr) return OpenSslFailed("make a server's certificate");
  std::string names;
  for (const std::string& name : dns_names) names += (names.empty() ? "DNS:" : ",DNS:") + name;
  X509* const self = certificate.get();
  if (X509_set_issuer_name(self, X509_get_subject_name(issuer.get())) != 1 ||
      !AddExtension(self, issuer.get(), NID_basic_constraints, "critical,CA:FALSE") ||
      !AddExtension(self, issuer.get(), NID_key_usage, "critical,digitalSignature") ||
      !AddExtension(self, issuer.get(), NID_ext_key_usage, "serverAuth") ||
      !AddExtension(self, issuer.get(), NID_subject_alt_name, names) ||
      !AddExtension(self, issuer.get(), NID_authority_key_identifier, "keyid") ||
      X509_sign(self, issuer_key.get(), EVP_sha256()) == 0)
    return OpenSslFailed("sign a server's certificate");
  return Encode(self, key.get());
}

}  // namespace cd::webhook
