// A PackedColumn is a column of integers as text, a few bytes each, for the data in a page. 100,000
// tasks of twenty numbers would be 15 MB as JSON; packed they are 3.
#pragma once

#include <cstdint>
#include <string>

namespace omni::perf {

// An integer becomes bytes of seven bits, the smallest first; the highest bit says that more
// follow. The lowest bit of the integer is its sign. The bytes are written in base64. The reader is
// perf/report/page/decode.js.
class PackedColumn {
 public:
  void add(std::int64_t value);
  // Adds the difference to the value of the call before; the first time, the value itself.
  void add_delta(std::int64_t value) {
    add(value - last_);
    last_ = value;
  }
  std::string text() const;

 private:
  std::string bytes_;
  std::int64_t last_ = 0;
};

}  // namespace omni::perf
