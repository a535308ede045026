// The fuzzer escapes any bytes for a terminal. No terminal command is left, escaping again changes
// nothing, and JSON keeps its contents.
#include <algorithm>
#include <cstdlib>
#include <nlohmann/json.hpp>
#include <string_view>

#include "runtime/json_text.hpp"
#include "runtime/shown_name.hpp"
#include "tests/fuzz/fuzz_target.hpp"

namespace {

bool harmless(std::string_view text, std::string_view allowed) {
  for (std::size_t i = 0, length = 1; i < text.size(); i += length) {
    length = omni::utf8_sequence(text.substr(i));
    if (length == 0) return false;
    const auto byte = static_cast<unsigned char>(text[i]);
    if (length == 1 && (byte < ' ' || byte == 0x7F) && allowed.find(text[i]) == allowed.npos)
      return false;
    if (byte == 0xC2 && static_cast<unsigned char>(text[i + 1]) < 0xA0) return false;
  }
  return true;
}

}  // namespace

OMNI_FUZZ_TARGET(terminal) {
  using namespace omni;
  const std::string text(reinterpret_cast<const char*>(data), size);
  const std::string line = one_line(text), block = printable(text), name = shown_name(text);
  if (!harmless(line, "") || !harmless(block, "\n\t") || !harmless(name, "")) std::abort();
  if (one_line(line) != line || printable(block) != block || name.size() > 500) std::abort();
  const nlohmann::json json{{"name", text}};
  const std::string written = json_text(json, 1);
  const std::string plain = json.dump(-1, ' ', false, nlohmann::json::error_handler_t::replace);
  if (!harmless(written, "\n") || nlohmann::json::parse(written) != nlohmann::json::parse(plain))
    std::abort();
  return 0;
}
