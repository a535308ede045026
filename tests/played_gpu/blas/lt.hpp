// With these functions tests ask the played cuBLASLt what it did, and tell it how to behave.
#pragma once

namespace omni::played {

struct LtCalls {
  long heuristics = 0;  // asked
  long products = 0;    // enqueued
};

LtCalls lt_calls();            // of all threads, so far
void let_lt_refuse(bool all);  // no heuristic knows anything
void let_relu_lose_nan(bool all);

}  // namespace omni::played
