// Rounding to bf16.
#include "codelets/elementwise/round.hpp"

#include "tests/gradcheck/harness.hpp"

namespace omni::gradcheck {
namespace {

TEST(Round, implementations_agree) {
  check_implementations<RoundArgs>(
      round_values, {{"usual", {4096}}, {"odd", {1037}}, {"one", {1}}},
      {.operands =
           [](const RoundArgs& args) {
             return std::vector{input(size(args.count)), output(size(args.count))};
           },
       .reference =
           [](const RoundArgs& args, const Buffers& buffers) {
             std::copy_n(buffers.get<double>(0), args.count, buffers.get<double>(1));
           }});
}

}  // namespace
}  // namespace omni::gradcheck
