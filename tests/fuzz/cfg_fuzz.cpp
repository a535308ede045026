// The fuzzer reads any bytes as a cfg file. The file is refused with its line, or describes a net
// that is built or refused in the same way. cfg.dict lists words of cfg files.
#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <string_view>

#include "layers/formats/darknet/darknet.hpp"
#include "layers/net.hpp"
#include "runtime/log.hpp"
#include "tests/fuzz/fuzz_target.hpp"

namespace {

void expect_a_place(const omni::Error& error) {
  if (error.kind != omni::ErrorKind::usage || !error.where.starts_with("fuzz.cfg:")) std::abort();
}

}  // namespace

OMNI_FUZZ_TARGET(cfg) {
  const omni::log::Capture quiet;
  auto spec = omni::parse_darknet_cfg({reinterpret_cast<const char*>(data), size}, "fuzz.cfg");
  if (!spec) {
    expect_a_place(spec.error());
    return 0;
  }
  if (auto net = omni::Net::build(*spec, {}); !net) expect_a_place(net.error());
  return 0;
}
