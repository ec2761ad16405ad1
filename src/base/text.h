// Text that came from outside: cut it, judge it.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>

namespace cd {

// At most `longest` bytes, cut at a character's start: valid UTF-8 stays valid, so a server stores just what was sent.
std::string CutText(std::string text, std::size_t longest);

// Foreign text for a log line, a condition or an event: at most `longest` bytes of whole characters, control characters as
// blanks, and U+FFFD for what is no UTF-8 (a protobuf string with such a byte would make the whole answer unreadable).
std::string Printable(std::string_view text, std::size_t longest);
// FNV-1a: the same in every build and release, which std::hash does not promise. Not cryptographic.
std::uint64_t StableHash(std::string_view text);

// IPv4 or IPv6, without brackets, prefix length or zone.
bool IsIpAddress(const std::string& text);

}  // namespace cd
