// libFuzzer reads any bytes as a net and a solver of Caffe, with a line of --- between them.
#include <cstdint>
#include <cstdlib>
#include <string_view>

#include "layers/formats/caffe/caffe.hpp"
#include "layers/net.hpp"
#include "runtime/log.hpp"
#include "tests/fuzz/fuzz_target.hpp"

namespace {

void expect_a_line(const omni::Error& error) {
  if (error.kind != omni::ErrorKind::usage ||
      !(error.where.starts_with("net:") || error.where.starts_with("solver:")))
    std::abort();
}

}  // namespace

OMNI_FUZZ_TARGET(prototxt) {
  const omni::log::Capture quiet;
  const std::string_view all(reinterpret_cast<const char*>(data), size), mark = "\n---\n";
  const std::size_t end = all.find(mark);
  const std::string_view text = all.substr(0, end);
  const auto net = end == all.npos ? omni::parse_caffe_net({text, "net"})
                                   : omni::parse_caffe_net(
                                         {text, "net"}, {all.substr(end + mark.size()), "solver"});
  if (!net) {
    expect_a_line(net.error());
    return 0;
  }
  if (const auto built = omni::Net::build(*net, {}); !built) expect_a_line(built.error());
  return 0;
}
