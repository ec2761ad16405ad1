// X.509 certificates of our own: a CA, and the serving certificate it issues. ECDSA on P-256, SHA-256.
#pragma once

#include <string>
#include <vector>

#include "src/base/clock.h"
#include "src/base/result.h"

namespace cd::webhook {

// PEM. The key is PKCS #8, not encrypted: it is a secret, never logged.
struct KeyPair {
  std::string certificate;
  std::string key;
};

struct Lifetime {
  WallTime begin;
  WallTime end;
};

// A CA that may issue leaves only.
Result<KeyPair> MakeAuthority(const std::string& common_name, const Lifetime& lifetime);

// A server's certificate for `dns_names` (at least one). kInvalidArgument: `authority` is not what MakeAuthority gives.
Result<KeyPair> IssueServer(const KeyPair& authority, const std::vector<std::string>& dns_names, const Lifetime& lifetime);

}  // namespace cd::webhook
