#include "codelets/elementwise/coding.hpp"

#include <bit>

#include "runtime/tasks/codelet.hpp"

namespace omni {
namespace {

// Returns the magnitude as an integer that orders all floats: NaN is the largest.
std::uint32_t magnitude(float value) { return std::bit_cast<std::uint32_t>(value) & 0x7FFFFFFFu; }

// Returns the magnitude of the value that is number `entries` in descending order. Each bit costs a
// pass over the values, which compilers vectorise.
std::uint32_t threshold(std::int64_t count, std::int64_t entries, auto value_at) {
  std::uint32_t least = 0;
  for (std::uint32_t bit = 1u << 30; bit != 0; bit >>= 1) {
    std::int64_t above = 0;
    for (std::int64_t i = 0; i < count; ++i) above += magnitude(value_at(i)) >= (least | bit);
    if (above >= entries) least |= bit;
  }
  return least;
}

// Entries are the memory of a message of Kind::top: indices, then values.
struct Entries {
  std::uint32_t* indices;
  float* values;
  Entries(const CodingArgs& args, const Buffers& buffers, std::size_t number)
      : indices(buffers.get<std::uint32_t>(number)),
        values(buffers.get<float>(number) + args.entries) {}
};

// Writes the entries of largest magnitude in the order of their indices. Of equal magnitudes at the
// threshold, those with the smallest indices are taken. Calls take(index, value) for each entry.
void write_largest(const CodingArgs& args, const Entries& message, auto value_at, auto take) {
  const std::uint32_t least = threshold(args.count, args.entries, value_at);
  std::int64_t larger = 0, written = 0;
  for (std::int64_t i = 0; i < args.count; ++i) larger += magnitude(value_at(i)) > least;
  std::int64_t equal = args.entries - larger;  // entries at the threshold that still fit
  for (std::int64_t i = 0; i < args.count; ++i) {
    const float value = value_at(i);
    const std::uint32_t own = magnitude(value);
    if (own < least || (own == least && equal-- <= 0)) continue;
    message.indices[written] = static_cast<std::uint32_t>(i);
    message.values[written++] = value;
    take(i, value);
  }
}

void encode_cpu(const CodingArgs& args, const Buffers& buffers, DeviceContext&) {
  float* __restrict values = buffers.get(0);
  float* __restrict kept = buffers.get(1);
  for (std::int64_t i = 0; i < args.count; ++i) kept[i] += values[i];
  if (args.clears) std::fill_n(values, args.count, 0.0f);
  if (args.entries > 0)
    return write_largest(
        args, Entries(args, buffers, 2), [kept](std::int64_t i) { return kept[i]; },
        [kept](std::int64_t i, float) { kept[i] = 0; });
  Bf16* __restrict message = buffers.get<Bf16>(2);
  for (std::int64_t i = 0; i < args.count; ++i) {
    message[i] = Bf16(kept[i]);
    kept[i] -= message[i];
  }
}

void encode_change_cpu(const CodingArgs& args, const Buffers& buffers, DeviceContext&) {
  const float* __restrict exact = buffers.get(0);
  float* __restrict known = buffers.get(1);
  if (args.entries > 0)
    return write_largest(
        args, Entries(args, buffers, 2), [=](std::int64_t i) { return exact[i] - known[i]; },
        [known](std::int64_t i, float value) { known[i] += value; });
  Bf16* __restrict message = buffers.get<Bf16>(2);
  for (std::int64_t i = 0; i < args.count; ++i) {
    message[i] = Bf16(exact[i] - known[i]);
    known[i] += message[i];
  }
}

void decode_cpu(const CodingArgs& args, const Buffers& buffers, DeviceContext&) {
  float* __restrict values = buffers.get(1);
  if (args.entries > 0) {
    const Entries message(args, buffers, 0);
    if (!args.adds) std::fill_n(values, args.count, 0.0f);
    for (std::int64_t i = 0; i < args.entries; ++i) values[message.indices[i]] += message.values[i];
    return;
  }
  const Bf16* __restrict message = buffers.get<Bf16>(0);
  for (std::int64_t i = 0; i < args.count; ++i)
    values[i] = args.adds ? values[i] + message[i] : static_cast<float>(message[i]);
}

std::uint64_t footprint(const CodingArgs& args) {
  return footprint_of(args.count, args.entries, args.adds);
}

CodingArgs args_of(const Coding& coding, std::size_t count) {
  return {.count = static_cast<std::int64_t>(count),
          .entries = coding.kind == Coding::Kind::top
                         ? static_cast<std::int64_t>(coding.entries(count))
                         : 0};
}

}  // namespace

Codelet<CodingArgs> encode_values({.name = "encode_values",
                                   .color = 0x6A994E,
                                   .implementations = {{"vector", encode_cpu}},
                                   .cost = cost_per_value<2, 18>,
                                   .footprint = footprint});
Codelet<CodingArgs> encode_change({.name = "encode_change",
                                   .color = 0x386641,
                                   .implementations = {{"vector", encode_change_cpu}},
                                   .cost = cost_per_value<2, 14>,
                                   .footprint = footprint});
Codelet<CodingArgs> decode_values({.name = "decode_values",
                                   .color = 0xA7C957,
                                   .implementations = {{"vector", decode_cpu}},
                                   .cost = cost_per_value<1, 8>,
                                   .footprint = footprint});

void submit_encode(const Coding& coding, TensorPart values, const Tensor& kept,
                   const Tensor& message, bool clears, TaskTag tag) {
  CodingArgs args = args_of(coding, values.count());
  args.clears = clears;
  encode_values.submit(
      args, {clears ? read_write(values) : read(values), read_write(kept), write(message)}, tag);
}

void submit_encode_change(const Coding& coding, TensorPart exact, TensorPart known,
                          const Tensor& message, TaskTag tag) {
  encode_change.submit(args_of(coding, exact.count()),
                       {read(exact), read_write(known), write(message)}, tag);
}

void submit_decode(const Coding& coding, const Tensor& message, TensorPart values, bool adds,
                   TaskTag tag) {
  CodingArgs args = args_of(coding, values.count());
  args.adds = adds;
  decode_values.submit(args, {read(message), adds ? read_write(values) : write(values)}, tag);
}

}  // namespace omni
