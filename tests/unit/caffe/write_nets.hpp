// These functions write nets in either form and read them again, for the tests.
#pragma once

#include "layers/formats/darknet/darknet.hpp"
#include "layers/formats/same_net.hpp"
#include "tests/unit/caffe/read_nets.hpp"

namespace omni::test {

inline std::unique_ptr<Net> made(const TrainableNet& described) {
  auto net = Net::build(described, {.training = false, .images = 1});
  EXPECT_TRUE(net) << net.error().message();
  return net ? std::move(*net) : nullptr;
}

// Returns what is lost if the net is written as a prototxt, or as a cfg; "" if nothing is. `text`
// receives what was written.
inline std::string lost(const TrainableNet& described, bool caffe, MayLose may_lose,
                        TrainableNet& again, std::string& text) {
  const log::Capture unsaid;
  const auto net = made(described);
  if (net == nullptr) return "no net";
  auto written = caffe ? write_caffe_net(described, *net) : write_darknet_cfg(described, *net);
  if (!written) return written.error().message();
  text = *written;
  auto read =
      caffe ? parse_caffe_net({text, "again.prototxt"}) : parse_darknet_cfg(text, "again.cfg");
  if (!read) return read.error().message() + "\n" + text;
  again = std::move(*read);
  const auto net_again = made(again);
  if (net_again == nullptr) return text;
  const Status same = check_same_net({*net, described, "a"}, {*net_again, again, "b"}, may_lose);
  return same ? "" : same.error().message() + "\n" + text;
}

}  // namespace omni::test
