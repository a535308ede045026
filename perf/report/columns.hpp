// Numbers in a page: a column of integers as text, a few bytes each. 100,000 tasks of twenty
// numbers would be 15 MB as JSON; like this they are 3.
#pragma once

#include <cstdint>
#include <string>

namespace omni::perf {

// Sign in the lowest bit, seven bits a byte, the smallest first (the highest bit: more follow),
// then base64. perf/report/page/decode.js reads it.
class PackedColumn {
 public:
  void add(std::int64_t value);
  void add_delta(std::int64_t value);  // the difference to the one before
  std::string text() const;

 private:
  std::string bytes_;
  std::int64_t last_ = 0;
};

}  // namespace omni::perf
