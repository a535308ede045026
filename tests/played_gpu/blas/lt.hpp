// With these functions tests ask the played cuBLASLt what it did, and tell it how to behave.
#pragma once

namespace omni::played {

struct LtCalls {
  long heuristics = 0;  // number of times they were asked
  long products = 0;    // number of enqueued products
};

LtCalls lt_calls();                // of all threads, so far
void let_lt_refuse(bool all);      // true: heuristics offer no algorithm
void let_relu_lose_nan(bool all);  // true: every algorithm's relu makes 0 of NaN

}  // namespace omni::played
