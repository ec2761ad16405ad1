// Text that came from outside: cut it, judge it.
#pragma once

#include <cstddef>
#include <string>

namespace cd {

// At most `longest` bytes, cut at a character's start: valid UTF-8 stays valid, so a server stores just what was sent.
std::string CutText(std::string text, std::size_t longest);

// IPv4 or IPv6, without brackets, prefix length or zone.
bool IsIpAddress(const std::string& text);

}  // namespace cd
