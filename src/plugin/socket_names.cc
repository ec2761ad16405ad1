#include "src/plugin/socket_names.h"

#include <openssl/evp.h>

#include <array>
#include <string_view>
#include <vector>

#include "src/base/files.h"

namespace cd::plugin {

namespace {

std::string RawUrlBase64(const unsigned char* bytes, std::size_t size) {
  static constexpr std::string_view kAlphabet = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-_";
  std::string out;
  unsigned int bits = 0;
  int held = 0;
  for (std::size_t i = 0; i < size; ++i) {
    bits = bits << 8 | bytes[i];
    for (held += 8; held >= 6; held -= 6) out += kAlphabet[bits >> (held - 6) & 63];
  }
  if (held > 0) out += kAlphabet[bits << (6 - held) & 63];
  return out;
}

std::string Hash(const std::string& text, std::size_t bytes) {
  std::array<unsigned char, EVP_MAX_MD_SIZE> digest{};
  unsigned int size = 0;
  EVP_Digest(text.data(), text.size(), digest.data(), &size, EVP_sha256(), nullptr);
  return RawUrlBase64(digest.data(), std::min<std::size_t>(bytes, size));
}

// The order is the DRA helper's, so that tools which know its sockets find ours.
std::vector<std::string> RegistrationNames(const std::string& driver, const std::string& uid) {
  if (uid.empty()) return {driver + "-reg.sock"};
  return {driver + "-" + uid + "-reg.sock", driver + "-" + Hash(uid, 8) + "-reg.sock",
          "dra-" + Hash(driver + std::string(1, '\0') + uid, 16) + "-reg.sock"};
}

Result<std::filesystem::path> FirstThatFits(const std::filesystem::path& dir, const std::vector<std::string>& names) {
  for (const std::string& name : names) {
    std::filesystem::path path = dir / name;
    if (path.string().size() <= kMaxSocketPath) return path;
  }
  return Fail(ErrorCode::kInvalidArgument, "directory " + dir.string() + " is too long for a unix socket (" +
                                               std::to_string(kMaxSocketPath) +
                                               " bytes with the socket's name); choose a shorter one");
}

}  // namespace

Result<SocketNames> NameSockets(const std::string& driver, const std::string& pod_uid, const std::filesystem::path& plugin_dir,
                                const std::filesystem::path& registry_dir) {
  if (!pod_uid.empty() && !IsSafePathComponent(pod_uid)) {
    return Fail(ErrorCode::kInvalidArgument,
                "pod UID \"" + pod_uid + "\" cannot be part of a file name; pass metadata.uid of the pod");
  }
  auto dra = FirstThatFits(plugin_dir, {pod_uid.empty() ? "dra.sock" : "dra-" + pod_uid + ".sock"});
  if (!dra) return Fail(dra.error());
  auto registration = FirstThatFits(registry_dir, RegistrationNames(driver, pod_uid));
  if (!registration) return Fail(registration.error());
  return SocketNames{std::move(*dra), std::move(*registration)};
}

}  // namespace cd::plugin
