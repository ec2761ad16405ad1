// The bearer token, which the kubelet rotates: the file is read again every minute, and at once after a 401.
#pragma once

#include <filesystem>
#include <string>

#include "src/base/clock.h"

namespace cd::kube {

class TokenSource {
 public:
  // An empty `file` means `fixed` for ever; both empty means no token.
  TokenSource(const Clock& clock, std::string fixed, std::filesystem::path file);

  // When the file cannot be read the token known last is kept, and the failure logged.
  const std::string& Current();
  // The server refused `used`. True when there is another one to try.
  bool Refused(const std::string& used);

 private:
  void Read();

  const Clock& clock_;
  const std::filesystem::path file_;
  std::string token_;
  SteadyTime read_at_{};
};

}  // namespace cd::kube
