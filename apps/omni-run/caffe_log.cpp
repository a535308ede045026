#include "apps/omni-run/caffe_log.hpp"

#include <fmt/chrono.h>
#include <fmt/format.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <chrono>
#include <ctime>
#include <map>
#include <numeric>
#include <utility>

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

void CaffeLog::begin(std::uint64_t display, const TrainableNet& net) {
  display_ = display;
  averaged_ = static_cast<std::size_t>(net.averaged_losses);
  for (const LayerDescription& layer : net.layers) {
    const bool own = &layer == &net.layers.back();
    if (!own && !layer.auxiliary) continue;
    const std::string& top = layer.outputs.front();
    std::string name = top.find('\n') == std::string::npos ? top : layer.name;
    if (layer.name.empty()) name = fmt::format("loss{}", auxiliary_.size() + 1);
    const Loss loss{std::move(name), static_cast<double>(layer.loss_weight)};
    if (!own) auxiliary_.push_back(loss);
    own_ = auxiliary_.empty() ? Loss{"loss", loss.weight} : loss;
  }
  print("solver.cpp:279", "Solving {}", net.name);
  print("solver.cpp:280", "Learning Rate Policy: {}",
        kPolicies[static_cast<std::size_t>(net.solver.policy)]);
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
  // Caffe sorts the outputs by their names. Ranks that other groups train on send no parts.
  const bool has_parts = report.auxiliary_losses.size() == auxiliary_.size();
  std::map<std::string, std::pair<double, double>> outputs;  // weighted losses, weights
  double own = report.loss;
  for (std::size_t i = 0; has_parts && i < auxiliary_.size(); ++i) {
    outputs[auxiliary_[i].name] = {report.auxiliary_losses[i], auxiliary_[i].weight};
    own -= report.auxiliary_losses[i];
  }
  outputs[has_parts ? own_.name : "loss"] = {own, has_parts ? own_.weight : 1};
  int number = 0;
  for (const auto& [name, loss] : outputs)
    print("solver.cpp:237", "    Train net output #{}: {} = {:.6g} (* {:.6g} = {:.6g} loss)",
          number++, name, loss.first / loss.second, loss.second, loss.first);
  print("sgd_solver.cpp:105", "Iteration {}, lr = {:.6g}", iteration, report.learning_rate);
  first_ = false;
  last_ = iteration;
  seconds_ = report.seconds;
}

void CaffeLog::evaluation(const EvaluationReport& report, int classes) const {
  print("solver.cpp:330", "Iteration {}, Testing net (#0)", report.at.iteration);
  if (classes > 0)
    print("solver.cpp:397", "    Test net output #0: accuracy = {:.6g}", report.tally.accuracy());
  print("solver.cpp:397", "    Test net output #{}: {} = {:.6g} (* {:.6g} = {:.6g} loss)",
        classes > 0 ? 1 : 0, own_.name, report.tally.mean_loss(), own_.weight,
        own_.weight * report.tally.mean_loss());
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
