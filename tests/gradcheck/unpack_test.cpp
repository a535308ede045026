// These tests check that unpacking turns bytes into the values that a net reads.
#include "runtime/data/feed/unpack.hpp"

#include "tests/gradcheck/harness.hpp"

namespace omni::gradcheck {
namespace {

// If the slice begins within a part, the operand is still the whole part, as in a shared stream.
std::vector<Operand> operands_of(const UnpackArgs& args, const Operand& whole) {
  std::vector<Operand> operands{output(size(args.images * args.image_values))};
  for (int first = -args.skipped; first < args.images; first += args.images_per_part)
    operands.push_back(whole);
  return operands;
}

std::vector<Operand> unpack_operands(const UnpackArgs& args) {
  return operands_of(
      args, input(size(args.images_per_part * args.image_values), below(256), DataType::u8));
}

const std::vector<Case<UnpackArgs>> kCuts{
    {"usual", {.images = 12, .images_per_part = 4, .image_values = 300}},
    {"one part", {.images = 3, .images_per_part = 3, .image_values = 75}},
    {"a rest, odd", {.images = 7, .images_per_part = 3, .image_values = 37}},
    {"within one part", {.images = 2, .images_per_part = 9, .skipped = 4, .image_values = 5}},
    {"from a part to another",
     {.images = 9, .images_per_part = 4, .skipped = 3, .image_values = 7}},
    {"more than a block takes at once", {.images = 3, .images_per_part = 2, .image_values = 4099}},
    {"as many parts as there can be", {.images = 15, .images_per_part = 1, .image_values = 1}}};

template <class T>
void reference(const UnpackArgs& args, const Buffers& b, double scale) {
  auto* dst = b.get<double>(0);
  for (int i = 0; i < args.images; ++i) {
    const int place = args.skipped + i;
    const T* const src = b.get<T>(size(1 + place / args.images_per_part)) +
                         place % args.images_per_part * args.image_values;
    for (std::int64_t j = 0; j < args.image_values; ++j) *dst++ = src[j] / scale;
  }
}

TEST(Unpack, ImplementationsAgree) {
  check_implementations<UnpackArgs>(
      unpack_batch, kCuts,
      {.operands = unpack_operands, .reference = [](const UnpackArgs& args, const Buffers& b) {
         reference<std::uint8_t>(args, b, 255);
       }});
}

TEST(GatherSamples, ImplementationsAgree) {
  check_implementations<UnpackArgs>(
      gather_samples, kCuts,
      {.operands =
           [](const UnpackArgs& args) {
             return operands_of(args, input(size(args.images_per_part * args.image_values)));
           },
       .reference = [](const UnpackArgs& args,
                       const Buffers& b) { reference<double>(args, b, 1); }});
}

// All 256 bytes must give exactly these values, so that a net learns the same from bytes as from
// floats.
TEST(Unpack, GivesTheVeryFloatAndItsRounding) {
  const UnpackArgs args{.images = 1, .images_per_part = 1, .image_values = 256};
  const auto every_byte = [next = 0](Draws&) mutable { return static_cast<float>(next++ % 256); };
  for (const auto& implementation : implementations_here(unpack_batch))
    for (const DataType type : {DataType::f32, DataType::bf16}) {
      const std::vector<Operand> operands{output(256, type), input(256, every_byte, DataType::u8)};
      const auto blocks = run_on<float>(
          operands, 1,
          [&](const Buffers& buffers) {
            implementation.kernel(args, buffers, DeviceContext::current());
          },
          implementation.role == Role::gpu);
      const std::vector<float> found = floats_of(operands[0], blocks[0]);
      for (int byte = 0; byte < 256; ++byte) {
        const float exact = static_cast<float>(byte) / 255.0f;
        EXPECT_EQ(found[size(byte)], type == DataType::bf16 ? float{Bf16(exact)} : exact)
            << implementation.name;
      }
    }
}

}  // namespace
}  // namespace omni::gradcheck
