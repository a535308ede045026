// The fuzzer reads any bytes as the manifest of a checkpoint, as they are and with the right
// checksum at their end.
#include <cstdlib>
#include <string_view>

#include "runtime/checksum.hpp"
#include "scheduling/checkpoint/checkpoint_folder.hpp"
#include "tests/fuzz/fuzz_target.hpp"

OMNI_FUZZ_TARGET(manifest) {
  using namespace omni;
  const std::string text(reinterpret_cast<const char*>(data), size);
  const std::string sealed = text + ",\n  \"manifest_xxh3_64\": \"" + checksum_of(text) + "\"\n}\n";
  for (const std::string& each : {text, sealed}) {
    const auto manifest = parse_manifest(each, "manifest.json");
    if (!manifest && (manifest.error().kind != ErrorKind::data || manifest.error().what.empty()))
      std::abort();
  }
  return 0;
}
