// The fuzzer reads any bytes as a machine file. It is refused with a reason, or gives a machine
// whose times are finite and above 0.
#include <cmath>
#include <cstdlib>
#include <string_view>

#include "scheduling/forecast/machine/machine_file.hpp"
#include "tests/fuzz/fuzz_target.hpp"

OMNI_FUZZ_TARGET(machine) {
  using namespace omni;
  const auto machine = parse_machine({reinterpret_cast<const char*>(data), size}, "machine.json");
  if (!machine) {
    if (machine.error().kind != ErrorKind::data || machine.error().what.empty()) std::abort();
    return 0;
  }
  for (std::size_t device = 0; device < machine->devices.size(); ++device)
    for (const std::uint64_t samples : {1, 64, 1'000'000'000}) {
      const double seconds = machine->seconds(device, samples, 1e9);
      if (!std::isfinite(seconds) || seconds <= 0) std::abort();
    }
  return 0;
}
