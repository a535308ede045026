// This header computes XXH3-64 checksums, of bytes that arrive piece by piece or of a whole text.
#pragma once

#include <fmt/format.h>
#include <xxhash.h>

#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <string_view>

namespace omni {

class Checksum {
 public:
  Checksum() { XXH3_64bits_reset(state_.get()); }
  void update(std::span<const std::byte> bytes) {
    XXH3_64bits_update(state_.get(), bytes.data(), bytes.size());
  }
  std::uint64_t value() const { return XXH3_64bits_digest(state_.get()); }

 private:
  struct Free {
    void operator()(XXH3_state_t* state) const { XXH3_freeState(state); }
  };
  std::unique_ptr<XXH3_state_t, Free> state_{XXH3_createState()};
};

inline std::string checksum_text(std::uint64_t value) { return fmt::format("{:016x}", value); }

inline std::string checksum_of(std::string_view text) {
  return checksum_text(XXH3_64bits(text.data(), text.size()));
}

}  // namespace omni
