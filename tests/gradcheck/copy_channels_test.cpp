#include "codelets/spatial/copy_channels.hpp"

#include "tests/gradcheck/harness.hpp"

namespace omni::gradcheck {
namespace {

std::size_t values(std::int64_t rows, int c) { return static_cast<std::size_t>(rows * c); }

TEST(CopyChannels, implementations_agree_and_leave_the_other_channels_alone) {
  const Operation<CopyChannelsArgs> operation{
      .operands = [](const CopyChannelsArgs& args) -> std::vector<Operand> {
        return {input(values(args.rows, args.src_c)), in_place(values(args.rows, args.dst_c))};
      },
      .reference =
          [](const CopyChannelsArgs& args, const Buffers& buffers) {
            reference::copy_channels(args, buffers.get<double>(0), buffers.get<double>(1));
          },
      .tolerance = 0,
  };
  check_implementations(
      copy_channels,
      {{"everything", {.rows = 49, .c = 16, .src_c = 16, .dst_c = 16}},
       {"one value", {.rows = 1, .c = 1, .src_c = 1, .dst_c = 1}},
       {"into the middle", {.rows = 25, .c = 3, .src_c = 3, .dst_c = 9, .dst_offset = 4}},
       {"into the end", {.rows = 25, .c = 32, .src_c = 32, .dst_c = 65, .dst_offset = 33}},
       {"out of the middle", {.rows = 9, .c = 5, .src_c = 11, .src_offset = 2, .dst_c = 5}},
       {"by fours",
        {.rows = 30, .c = 8, .src_c = 12, .src_offset = 4, .dst_c = 20, .dst_offset = 8}},
       {"between fours", {.rows = 9, .c = 8, .src_c = 12, .src_offset = 2, .dst_c = 8}},
       {"one row", {.rows = 1, .c = 7, .src_c = 8, .src_offset = 1, .dst_c = 7}},
       {"into zeros", {.rows = 25, .c = 3, .src_c = 3, .dst_c = 9, .dst_offset = 4, .pads = true}},
       {"into zeros, by fours",
        {.rows = 30, .c = 8, .src_c = 8, .dst_c = 20, .dst_offset = 8, .pads = true}},
       {"into no zeros", {.rows = 30, .c = 8, .src_c = 8, .dst_c = 8, .pads = true}}},
      operation);
}

TEST(CopyChannels, split_is_the_gradient_of_concat) {
  constexpr std::int64_t kRows = 6;
  const std::vector<int> channels{3, 1, 5};
  std::vector<std::vector<double>> parts, diffs;
  for (std::size_t i = 0; i < channels.size(); ++i) {
    parts.push_back(random_values(values(kRows, channels[i]), i));
    diffs.emplace_back(parts.back().size());
  }
  std::vector<double> whole(values(kRows, 9));
  const std::vector<double> diff_whole = random_values(whole.size(), 9);
  const auto loss = [&] {
    int offset = 0;
    for (std::size_t i = 0; i < parts.size(); offset += channels[i++])
      reference::copy_channels(
          {.rows = kRows, .c = channels[i], .src_c = channels[i], .dst_c = 9, .dst_offset = offset},
          parts[i].data(), whole.data());
    return dot(whole, diff_whole);
  };
  int offset = 0;
  for (std::size_t i = 0; i < parts.size(); offset += channels[i++]) {
    reference::copy_channels(
        {.rows = kRows, .c = channels[i], .src_c = 9, .src_offset = offset, .dst_c = channels[i]},
        diff_whole.data(), diffs[i].data());
    check_gradient("part", parts[i], diffs[i], loss);
  }
}

TEST(CopyChannels, the_gradient_of_a_slice_is_zero_outside) {
  std::vector<double> whole = random_values(values(4, 7), 1), part(values(4, 3)),
                      diff(whole.size(), 9);
  const std::vector<double> diff_part = random_values(part.size(), 2);
  reference::copy_channels(
      {.rows = 4, .c = 3, .src_c = 3, .dst_c = 7, .dst_offset = 2, .pads = true}, diff_part.data(),
      diff.data());
  check_gradient("whole", whole, diff, [&] {
    reference::copy_channels({.rows = 4, .c = 3, .src_c = 7, .src_offset = 2, .dst_c = 3},
                             whole.data(), part.data());
    return dot(part, diff_part);
  });
}

TEST(CopyChannels, hand_computed) {
  const std::vector<double> src{1, 2, 3, 4};
  std::vector<double> dst(6, 0);
  reference::copy_channels({.rows = 2, .c = 2, .src_c = 2, .dst_c = 3, .dst_offset = 1}, src.data(),
                           dst.data());
  EXPECT_EQ(dst, (std::vector<double>{0, 1, 2, 0, 3, 4}));
}

}  // namespace
}  // namespace omni::gradcheck
