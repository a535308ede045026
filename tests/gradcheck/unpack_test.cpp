// Pixels become the values that a net reads.
#include "runtime/data/images/unpack.hpp"

#include "tests/gradcheck/harness.hpp"

namespace omni::gradcheck {
namespace {

std::vector<Operand> unpack_operands(const UnpackArgs& args) {
  std::vector<Operand> operands{output(size(args.images * args.image_values))};
  for (int first = 0; first < args.images; first += args.images_per_part)
    operands.push_back(
        input(size(std::min(args.images_per_part, args.images - first) * args.image_values),
              below(256), DataType::u8));
  return operands;
}

TEST(Unpack, ImplementationsAgree) {
  check_implementations<UnpackArgs>(
      unpack_batch,
      {{"usual", {.images = 12, .images_per_part = 4, .image_values = 300}},
       {"one part", {.images = 3, .images_per_part = 3, .image_values = 75}},
       {"a rest, odd", {.images = 7, .images_per_part = 3, .image_values = 37}},
       {"more than a block takes at once",
        {.images = 3, .images_per_part = 2, .image_values = 4099}},
       {"as many parts as there can be", {.images = 15, .images_per_part = 1, .image_values = 1}}},
      {.operands = unpack_operands, .reference = [](const UnpackArgs& args, const Buffers& b) {
         auto* dst = b.get<double>(0);
         std::size_t part = 1;
         for (int first = 0; first < args.images; first += args.images_per_part, ++part) {
           const std::int64_t values =
               std::min(args.images_per_part, args.images - first) * args.image_values;
           for (std::int64_t i = 0; i < values; ++i) *dst++ = b.get<std::uint8_t>(part)[i] / 255.0;
         }
       }});
}

// Of every byte, so that a net learns the same whichever way its images came.
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
