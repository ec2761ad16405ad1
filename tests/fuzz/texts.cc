#include <nlohmann/json.hpp>

#include "src/base/text.h"
#include "tests/fuzz/fuzz.h"

namespace cd::fuzz {

void PrintableText(std::string_view input) {
  for (const std::size_t longest : {0, 1, 5, 64, 1 << 20}) {
    const std::string text = Printable(input, longest);
    RequirePrintable(text, longest);
    // An independent judge of UTF-8.
    Require(nlohmann::json(text).dump(-1, ' ', false, nlohmann::json::error_handler_t::ignore) == nlohmann::json(text).dump(),
            "it is valid UTF-8");
  }
}

}  // namespace cd::fuzz
