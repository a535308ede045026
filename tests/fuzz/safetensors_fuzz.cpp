// libFuzzer reads any bytes as a safetensors file. It is refused, or has the same contents after it
// is written and read again.
#include <cstdlib>
#include <cstring>
#include <span>
#include <string>
#include <string_view>

#include "layers/formats/safetensors.hpp"
#include "tests/fuzz/fuzz_target.hpp"

namespace {

omni::Result<omni::Safetensors> parse(std::string_view bytes) {
  std::size_t position = 0;
  const auto source = [&](std::span<std::byte> block) -> omni::Status {
    if (block.size() > bytes.size() - position) std::abort();
    if (!block.empty()) std::memcpy(block.data(), bytes.data() + position, block.size());
    position += block.size();
    return {};
  };
  return omni::read_safetensors(source, bytes.size(), "input");
}

std::string write(const omni::Safetensors& file) {
  std::string bytes;
  const auto sink = [&](std::span<const std::byte> block) {
    bytes.append(reinterpret_cast<const char*>(block.data()), block.size());
    return omni::Status();
  };
  if (!omni::write_safetensors(sink, file.arrays(), file.metadata())) std::abort();
  return bytes;
}

}  // namespace

OMNI_FUZZ_TARGET(safetensors) {
  const auto file = parse({reinterpret_cast<const char*>(data), size});
  if (!file) return 0;
  const std::string once = write(*file);
  const auto again = parse(once);
  if (!again || write(*again) != once) std::abort();
  return 0;
}
