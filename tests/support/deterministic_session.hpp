// This fixture has a deterministic session of two workers, for tests that compare bits.
#pragma once

#include "tests/support/with_session.hpp"

namespace omni::test {

class DeterministicSession : public WithSession {
 protected:
  DeterministicSession() : WithSession(with_workers(2, true)) {}
};

}  // namespace omni::test
