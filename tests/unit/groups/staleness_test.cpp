// These tests check the exchange codelet: which parameters one task updates, and that it measures
// the staleness that queueing theory predicts.
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <map>
#include <memory>

#include "codelets/elementwise/exchange.hpp"
#include "runtime/tasks/task_capture.hpp"
#include "runtime/tasks/task_errors.hpp"
#include "tests/support/group_training.hpp"
#include "tests/support/virtual_groups.hpp"
#include "tests/support/with_session.hpp"

namespace omni {
namespace {

using test::VirtualGroups;

// The test has one parameter and a replica of it for each group. Exchanges are submitted in the
// order in which groups finish.
class StalenessTest : public test::WithSession {
 protected:
  // On a machine with fewer than 8 cores, the system interrupts workers in the middle of tasks.
  StalenessTest() : WithSession(test::with_workers(8)) {}

  std::vector<std::int64_t> measure(int groups, VirtualGroups::ServiceTime service, int updates) {
    VirtualGroups arrivals(groups, std::move(service), 7);
    Tensor master("master", 3), velocity("velocity", 3);
    std::vector<std::unique_ptr<Tensor>> replicas, diffs;
    UpdateCount clock{0};
    std::vector<SeenVersion> seen_by(static_cast<std::size_t>(groups));
    for (Tensor* tensor : {&master, &velocity}) EXPECT_TRUE(tensor->allocate());
    for (SeenVersion& ticket : seen_by) {
      ticket.count = &clock;
      for (auto* tensors : {&replicas, &diffs})
        EXPECT_TRUE(tensors->emplace_back(std::make_unique<Tensor>("t", 3))->allocate());
    }
    std::vector<UpdateReport> reports(static_cast<std::size_t>(updates));
    for (UpdateReport& report : reports) {
      const auto group = static_cast<std::size_t>(arrivals.next());
      report.left = 1;
      report.done = [](UpdateReport&, void*) {};
      const Exchange exchange{
          {.reports = Staleness::replicated, .seen = &seen_by[group], .report = &report},
          {master, *diffs[group], velocity, replicas[group].get()}};
      submit_exchanges({&exchange, 1}, ExchangeOrder::submission);
    }
    EXPECT_TRUE(wait_for_tasks());
    EXPECT_EQ(clock, updates);
    std::vector<std::int64_t> staleness;
    for (const UpdateReport& report : reports) staleness.push_back(report.staleness);
    return staleness;
  }

  static double mean(const std::vector<std::int64_t>& values) {
    double sum = 0;
    for (const std::int64_t value : values) sum += static_cast<double>(value);
    return sum / static_cast<double>(values.size());
  }
};

TEST_F(StalenessTest, mean_is_groups_minus_1_whatever_the_service_times) {
  for (const int groups : {2, 4, 8, 16})
    for (const auto& service : {VirtualGroups::constant(), VirtualGroups::exponential()})
      EXPECT_NEAR(mean(measure(groups, service, 4000)), groups - 1, 0.02 * (groups - 1))
          << groups << " groups";
}

TEST_F(StalenessTest, one_group_is_never_stale) {
  EXPECT_EQ(mean(measure(1, VirtualGroups::exponential(), 100)), 0);
}

TEST_F(StalenessTest, of_exponential_service_times_is_geometric) {
  constexpr int kUpdates = 8000;
  for (const int groups : {2, 4, 8, 16}) {
    std::map<std::int64_t, double> seen;
    for (const std::int64_t each : measure(groups, VirtualGroups::exponential(), kUpdates))
      ++seen[each];
    // The chi-square test has a class for each staleness that is expected at least 20 times, and
    // one class for all others.
    const double p = 1.0 / groups;
    double chi_square = 0, rest = kUpdates, rest_seen = kUpdates, probability = p;
    int classes = 1;
    for (std::int64_t value = 0; probability * kUpdates >= 20; ++value, probability *= 1 - p) {
      const double expected = probability * kUpdates, gap = seen[value] - expected;
      chi_square += gap * gap / expected;
      rest -= expected;
      rest_seen -= seen[value];
      ++classes;
    }
    chi_square += (rest_seen - rest) * (rest_seen - rest) / rest;
    // By Wilson and Hilferty's approximation, z has a standard normal distribution.
    const double freedom = classes - 1, spread = 2 / (9 * freedom);
    const double z = (std::cbrt(chi_square / freedom) - (1 - spread)) / std::sqrt(spread);
    EXPECT_LT(z, 3.1) << groups << " groups: chi-square " << chi_square << " with " << freedom
                      << " degrees of freedom";
  }
}

// Each update adds 1 to the master, so a replica's value is the number of its update. The final
// value shows whether an update was lost.
TEST_F(StalenessTest, H8_no_update_is_lost_and_numbers_follow_the_order_of_the_master) {
  struct Update {
    Tensor replica{"replica", 1}, diff{"diff", 1};
    UpdateReport report;
    SeenVersion seen;
  };
  Tensor master("master", 1), velocity("velocity", 1);
  for (Tensor* tensor : {&master, &velocity}) ASSERT_TRUE(tensor->allocate());
  UpdateCount clock{0};
  std::vector<Update> updates(20000);
  for (Update& update : updates) {
    for (Tensor* tensor : {&update.replica, &update.diff}) ASSERT_TRUE(tensor->allocate());
    test::set(update.diff, {-1});
    update.seen.count = &clock;
    update.report.left = 1;
    update.report.done = [](UpdateReport&, void*) {};
    const Exchange exchange{{.learning_rate = 1,
                             .reports = Staleness::replicated,
                             .seen = &update.seen,
                             .report = &update.report},
                            {master, update.diff, velocity, &update.replica}};
    submit_exchanges({&exchange, 1}, ExchangeOrder::arrival);
  }
  ASSERT_TRUE(wait_for_tasks());
  for (const Update& update : updates)
    ASSERT_EQ(update.seen.version, static_cast<std::int64_t>(test::values(update.replica).front()));
  EXPECT_EQ(test::values(master).front(), static_cast<float>(updates.size()));
}

// Each parameter has three tensors in a task, so a task with 6 tensors updates two parameters.
TEST_F(StalenessTest, small_neighbours_are_updated_together_the_others_alone) {
  std::vector<std::unique_ptr<Tensor>> tensors;
  const auto param = [&](std::size_t count, std::size_t part = 0) {
    for (int i = 0; i < 3; ++i) {
      tensors.push_back(std::make_unique<Tensor>("t", count));
      if (part != 0) tensors.back()->cut(part);
    }
    const auto last = std::span(tensors).last(3);
    return Exchange{{}, {*last[0], *last[1], *last[2]}};
  };
  const std::vector<Exchange> exchanges{param(10), param(20),  param(1 << 20), param(30, 15),
                                        param(1),  param(300), param(40),      param(50)};
  std::vector<std::size_t> params;  // by task
  for (const CapturedTask& task :
       task_capture::capture_tasks([&] { submit_exchanges(exchanges, ExchangeOrder::submission); }))
    params.push_back(task.uses.size() / 3);
  EXPECT_EQ(params, (std::vector<std::size_t>{2, 1, 1, 1, 3, 1}));
}

TEST_F(StalenessTest, of_constant_service_times_is_constant) {
  const std::vector<std::int64_t> staleness = measure(4, VirtualGroups::constant(), 1000);
  const auto exact = std::count(staleness.begin(), staleness.end(), 3);
  EXPECT_GT(exact, 900);
}

}  // namespace
}  // namespace omni
