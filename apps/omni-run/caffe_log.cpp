#include "apps/omni-run/caffe_log.hpp"

#include <fmt/chrono.h>
#include <fmt/format.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <chrono>
#include <ctime>
#include <numeric>

#include "runtime/log.hpp"

namespace omni {
namespace {

// Caffe's names, by RatePolicy; those that Caffe lacks have ours.
constexpr std::array<std::string_view, kRatePolicyNames.size()> kPolicies{
    "fixed", "step", "multistep", "exp", "poly", "sigmoid", "random", "sgdr", "inv"};

template <class... T>
void print(const char* place, fmt::format_string<T...> format, T&&... values) {
  log::info("{}{}", glog_prefix(place), fmt::format(format, std::forward<T>(values)...));
}

}  // namespace

std::string glog_prefix(const char* place) {
  using namespace std::chrono;
  const auto now = system_clock::now().time_since_epoch();
  const std::time_t seconds = duration_cast<std::chrono::seconds>(now).count();
  std::tm local{};
  localtime_r(&seconds, &local);
  return fmt::format("I{:%m%d %H:%M:%S}.{:06} {:5} {}] ", local,
                     duration_cast<microseconds>(now).count() % 1'000'000, getpid(), place);
}

void CaffeLog::begin(const std::string& net, RatePolicy policy, int averaged) {
  averaged_ = static_cast<std::size_t>(averaged);
  print("solver.cpp:279", "Solving {}", net);
  print("solver.cpp:280", "Learning Rate Policy: {}", kPolicies[static_cast<std::size_t>(policy)]);
}

void CaffeLog::iteration(const StepReport& report) {
  if (losses_.size() == averaged_) losses_.pop_front();
  losses_.push_back(report.loss);
}

void CaffeLog::step(const StepReport& report) {
  const std::uint64_t iteration = report.iteration - 1;
  if (!is_reported(report.iteration)) return;  // step() is also called after the last iteration
  const double seconds = report.seconds - seconds_;
  const std::uint64_t since = first_ ? 0 : iteration - last_;
  print("solver.cpp:218", "Iteration {} ({:.6g} iter/s, {:.6g}s/{} iters), loss = {:.6g}",
        iteration, static_cast<double>(since) / std::max(seconds, 1e-9), seconds, display_,
        std::accumulate(losses_.begin(), losses_.end(), 0.0) / static_cast<double>(losses_.size()));
  print("solver.cpp:237", "    Train net output #0: loss = {:.6g} (* 1 = {:.6g} loss)", report.loss,
        report.loss);
  print("sgd_solver.cpp:105", "Iteration {}, lr = {:.6g}", iteration, report.learning_rate);
  first_ = false;
  last_ = iteration;
  seconds_ = report.seconds;
}

void CaffeLog::evaluation(const EvaluationReport& report, int classes) const {
  print("solver.cpp:330", "Iteration {}, Testing net (#0)", report.at.iteration);
  if (classes > 0)
    print("solver.cpp:397", "    Test net output #0: accuracy = {:.6g}", report.tally.accuracy());
  print("solver.cpp:397", "    Test net output #{}: loss = {:.6g} (* 1 = {:.6g} loss)",
        classes > 0 ? 1 : 0, report.tally.mean_loss(), report.tally.mean_loss());
  if (classes > 5)
    print("solver.cpp:397", "    Test net output #2: accuracy_top5 = {:.6g}",
          report.tally.top5_accuracy());
}

void CaffeLog::snapshot(const std::string& parameters, const std::string& state) const {
  print("solver.cpp:447", "Snapshotting to binary proto file {}", parameters);
  if (!state.empty())
    print("sgd_solver.cpp:273", "Snapshotting solver state to binary proto file {}", state);
}

void CaffeLog::end() const { print("solver.cpp:315", "Optimization Done."); }

}  // namespace omni
