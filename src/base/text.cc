#include "src/base/text.h"

#include <arpa/inet.h>

#include <algorithm>

namespace cd {

namespace {

constexpr std::string_view kReplacement = "\xef\xbf\xbd";

// Bytes of the character `text` begins with; 0 when it is not valid UTF-8 (RFC 3629: no overlong form, no surrogate, nothing
// above U+10FFFF).
std::size_t CharacterSize(std::string_view text) {
  const auto byte = [&](std::size_t i) { return static_cast<unsigned char>(text[i]); };
  const unsigned char first = byte(0);
  if (first < 0x80) return 1;
  const std::size_t size = first >= 0xf0 ? 4 : first >= 0xe0 ? 3 : 2;
  if (first < 0xc2 || first > 0xf4 || text.size() < size) return 0;
  const unsigned char lowest = first == 0xe0 ? 0xa0 : first == 0xf0 ? 0x90 : 0x80;
  const unsigned char highest = first == 0xed ? 0x9f : first == 0xf4 ? 0x8f : 0xbf;
  if (byte(1) < lowest || byte(1) > highest) return 0;
  for (std::size_t i = 2; i < size; ++i) {
    if ((byte(i) & 0xc0) != 0x80) return 0;
  }
  return size;
}

bool IsControl(unsigned char c) {
  return c < 0x20 || c == 0x7f;
}

}  // namespace

std::string Printable(std::string_view text, std::size_t longest) {
  std::string out;
  while (!text.empty()) {
    const std::size_t size = CharacterSize(text);
    std::string_view next = size == 0 ? kReplacement : text.substr(0, size);
    if (size == 1 && IsControl(static_cast<unsigned char>(text[0]))) next = " ";
    if (out.size() + next.size() > longest) break;
    out += next;
    text.remove_prefix(std::max<std::size_t>(size, 1));
  }
  return out;
}

std::string CutText(std::string text, std::size_t longest) {
  if (text.size() <= longest) return text;
  while (longest > 0 && (static_cast<unsigned char>(text[longest]) & 0xc0) == 0x80) --longest;
  text.resize(longest);
  return text;
}

std::uint64_t StableHash(std::string_view text) {
  std::uint64_t hash = 0xcbf29ce484222325;
  for (const unsigned char c : text) hash = (hash ^ c) * 0x100000001b3;
  return hash;
}

bool IsIpAddress(const std::string& text) {
  in6_addr address;
  return ::inet_pton(AF_INET, text.c_str(), &address) == 1 || ::inet_pton(AF_INET6, text.c_str(), &address) == 1;
}

}  // namespace cd
