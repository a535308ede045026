#include "perf/report/packed_column.hpp"

#include <cstddef>
#include <string_view>

namespace omni::perf {

void PackedColumn::add(std::int64_t value) {
  const std::uint64_t bits = value;
  std::uint64_t rest = value < 0 ? ~(bits << 1) : bits << 1;
  for (; rest >= 0x80; rest >>= 7) bytes_.push_back(static_cast<char>(rest | 0x80));
  bytes_.push_back(static_cast<char>(rest));
}

std::string PackedColumn::text() const {
  constexpr std::string_view kDigits =
      "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
  std::string text;
  text.reserve((bytes_.size() + 2) / 3 * 4);
  for (std::size_t i = 0; i < bytes_.size(); i += 3) {
    std::uint32_t group = 0;
    for (std::size_t j = i; j < i + 3; ++j)
      group = group << 8 | (j < bytes_.size() ? static_cast<std::uint8_t>(bytes_[j]) : 0U);
    for (int j = 0; j < 4; ++j) text.push_back(kDigits[group >> (18 - 6 * j) & 63]);
  }
  if (bytes_.size() % 3 != 0)
    text.replace(text.size() - (3 - bytes_.size() % 3), 3, 3 - bytes_.size() % 3, '=');
  return text;
}

}  // namespace omni::perf
