// Coding makes the messages of ranks smaller: gradients, contributions to meetings, and the
// parameters that return. A coded message holds the values in bf16, or only those of largest
// magnitude with their indices. What the message leaves out is kept by its sender, which adds it to
// the next message (error feedback):
//   encode_values:  kept += values;  values = 0 if they are cleared
//                   message = coded(kept);  kept -= message
//   encode_change:  message = coded(exact - known);  known += message
//   decode_values:  values = message, or values += message
// encode_change() is for values that all ranks know equally: every rank adds the same message to
// its copy, the sender too. `exact - known` is what the next message has to make up for.
#pragma once

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <cstdint>

#include "runtime/tasks/access.hpp"
#include "runtime/tasks/kernel.hpp"
#include "runtime/tasks/submission.hpp"

namespace omni {

struct Coding {
  enum class Kind : std::uint8_t { whole, bf16, top };
  Kind kind = Kind::whole;
  double share = 1;  // of the values that a message of Kind::top has

  // A message of Kind::top has at least this many entries. Fewer would not arrive sooner.
  static constexpr std::size_t kLeastEntries = 64;
  static constexpr std::size_t kEntryBytes = 8;  // index and value
  // Returns the number of entries of a message of Kind::top for `count` values.
  std::size_t entries(std::size_t count) const {
    const double wanted = std::ceil(share * static_cast<double>(count));
    return std::max(static_cast<std::size_t>(wanted), kLeastEntries);
  }
  // Returns the bytes of a message for `count` values. It is not coded if that saves nothing.
  std::size_t bytes(std::size_t count) const {
    return std::min(sizeof(float) * count, kind == Kind::bf16  ? 2 * count
                                           : kind == Kind::top ? kEntryBytes * entries(count)
                                                               : sizeof(float) * count);
  }
  bool codes(std::size_t count) const { return bytes(count) < sizeof(float) * count; }
  bool operator==(const Coding&) const = default;
};

struct CodingArgs {
  std::int64_t count = 0;    // number of values
  std::int64_t entries = 0;  // of the message; 0: all values in bf16
  bool clears = false;       // encode_values: the values become 0
  bool adds = false;         // decode_values: the message is added
};

OMNI_CODELET(CodingArgs, encode_values);  // {values RW, or R if they stay, kept RW, message W}
OMNI_CODELET(CodingArgs, encode_change);  // {exact R, known RW, message W}
OMNI_CODELET(CodingArgs, decode_values);  // {message R, values RW if added, else W}

// Messages are tensors of bytes (DataType::u8).
void submit_encode(const Coding& coding, TensorPart values, const Tensor& kept,
                   const Tensor& message, bool clears, TaskTag tag = {});
void submit_encode_change(const Coding& coding, TensorPart exact, TensorPart known,
                          const Tensor& message, TaskTag tag = {});
void submit_decode(const Coding& coding, const Tensor& message, TensorPart values, bool adds,
                   TaskTag tag = {});

}  // namespace omni
