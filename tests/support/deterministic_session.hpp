// A deterministic session of two workers with performance models of its own, for tests that compare
// bits.
#pragma once

#include <gtest/gtest.h>

#include "runtime/tasks/session.hpp"
#include "tests/support/temporary_directory.hpp"

namespace omni::test {

class DeterministicSession : public testing::Test {
 protected:
  DeterministicSession() : session_(start()) {}

 private:
  Result<Session> start() {
    SessionOptions options;
    options.cpu_workers = 2;
    options.deterministic = true;
    options.models = folder_ / "models";
    return Session::start(options);
  }

  TemporaryDirectory folder_;
  Result<Session> session_;
};

}  // namespace omni::test
