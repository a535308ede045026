// This fixture has a StarPU session with performance models of its own, and a folder.
#pragma once

#include <gtest/gtest.h>

#include <utility>

#include "runtime/tasks/session.hpp"
#include "tests/support/temporary_directory.hpp"

namespace omni::test {

class WithSession : public testing::Test {
 protected:
  explicit WithSession(SessionOptions options) : session_(start(std::move(options))) {}
  void SetUp() override { ASSERT_TRUE(session_) << session_.error().message(); }

  const Session& session() const { return *session_; }

  TemporaryDirectory folder_;

 private:
  Result<Session> start(SessionOptions options) const {
    options.models = folder_ / "models";
    return Session::start(options);
  }
  Result<Session> session_;
};

inline SessionOptions with_workers(int cpu_workers, bool deterministic = false) {
  SessionOptions options;
  options.cpu_workers = cpu_workers;
  options.deterministic = deterministic;
  return options;
}

}  // namespace omni::test
