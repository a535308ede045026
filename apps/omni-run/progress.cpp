#include "apps/omni-run/progress.hpp"

#include <fmt/format.h>
#include <sys/ioctl.h>
#include <unistd.h>

#include <algorithm>
#include <cstdio>
#include <utility>

#include "apps/omni-perf/document.hpp"
#include "runtime/log.hpp"

namespace omni {

std::string duration(double seconds) {
  const auto whole = static_cast<long>(seconds + 0.5);
  if (whole >= 3600) return fmt::format("{}h{:02}m", whole / 3600, whole / 60 % 60);
  if (whole >= 60) return fmt::format("{}m{:02}s", whole / 60, whole % 60);
  return fmt::format("{}s", whole);
}

std::string simulated(double seconds) {
  return perf::shown(seconds, perf::Format::seconds) + " simulated";
}

namespace {

constexpr auto kBetweenDraws = std::chrono::milliseconds(100);

int terminal_width() {
  winsize size{};
  return ioctl(STDERR_FILENO, TIOCGWINSZ, &size) == 0 && size.ws_col > 0 ? size.ws_col : 80;
}

void draw(const std::string& text, int width) {
  fmt::print(stderr, "\r{}\x1b[K",
             text.substr(0, static_cast<std::size_t>(std::max(1, width - 1))));
  std::fflush(stderr);
}

}  // namespace

void CommonLine::show(const std::string& training, const std::string& text) {
  const std::lock_guard lock(mutex_);
  auto own = std::ranges::find(texts_, training, &std::pair<std::string, std::string>::first);
  if (own == texts_.end()) own = texts_.insert(own, {training, ""});
  own->second = text;
  const auto now = std::chrono::steady_clock::now();
  if (now - drawn_ < kBetweenDraws) return;
  drawn_ = now;
  std::string line;
  for (const auto& [name, shown] : texts_)
    line += fmt::format("{}{} {}", line.empty() ? "" : " | ", name, shown);
  draw(line, terminal_width());
  is_open_ = true;
}

void CommonLine::finish() {
  const std::lock_guard lock(mutex_);
  if (std::exchange(is_open_, false)) std::fputc('\n', stderr);
}

Progress::Progress(bool quiet, CommonLine* common, std::string name)
    : quiet_(quiet),
      terminal_(isatty(STDERR_FILENO) != 0),
      common_(common),
      name_(std::move(name)),
      width_(terminal_ ? terminal_width() : 80) {}

std::string Progress::bar(const StepReport& report) const {
  std::string facts = fmt::format(
      "epoch {:.2f} loss {:.3f}{} rate {:.2g} {:.0f} img/s", report.epoch, report.average_loss,
      report.has_classes ? fmt::format(" acc {:.1f}%", 100 * report.average_accuracy) : "",
      report.learning_rate, report.images_per_second);
  if (report.simulated_seconds) facts += ' ' + simulated(*report.simulated_seconds);
  if (report.iterations == 0) return fmt::format("{} {}", report.iteration, facts);
  const double share =
      static_cast<double>(report.iteration) / static_cast<double>(report.iterations);
  const auto left = static_cast<double>(report.iterations - report.iteration);
  facts = fmt::format("{}/{} {} {} left", report.iteration, report.iterations, facts,
                      duration(report.seconds_per_iteration * left));
  // The bar fills the columns beside the numbers, 30 at most.
  const int room = std::clamp(width_ - static_cast<int>(facts.size()) - 4, 0, 30);
  if (room < 5) return facts;
  const int full = static_cast<int>(share * room);
  return fmt::format("[{:#<{}}{:-<{}}] {}", "", full, "", room - full, facts);
}

void Progress::iteration(const StepReport& report) {
  if (quiet_ || !terminal_ || !is_time(report.iteration == report.iterations)) return;
  if (common_ == nullptr) return redraw(bar(report));
  const std::uint64_t all = report.iterations;
  common_->show(name_, fmt::format("{}{} {:.3f}", report.iteration,
                                   all > 0 ? fmt::format("/{}", all) : "", report.average_loss));
}

// Returns true a few times a second, and always for the last step.
bool Progress::is_time(bool last) {
  const auto now = std::chrono::steady_clock::now();
  if (now - drawn_ < kBetweenDraws && !last) return false;
  drawn_ = now;
  return true;
}

void Progress::redraw(const std::string& text) {
  draw(text, width_);
  open_line_ = true;
}

void Progress::checked(std::size_t done, std::size_t all, std::size_t unreadable) {
  tenth(fmt::format("checked {} of {} samples, {} unreadable", done, all, unreadable), done, all);
}

void Progress::prepared(std::size_t done, std::size_t all) {
  tenth(fmt::format("{} of {} images", done, all), done, all);
}

void Progress::tenth(const std::string& text, std::size_t done, std::size_t all) {
  if (quiet_) return;
  if (terminal_ && is_time(done == all)) redraw(text);
  const std::size_t tenths = done * 10 / all;
  if (!terminal_ && tenths > std::exchange(tenths_, tenths)) log::info("{}", text);
}

void Progress::part(const std::string& what, int done, int all) {
  if (quiet_ || !terminal_ || !is_time(done == all)) return;
  redraw(fmt::format("{}: iteration {} of {}", what, done, all));
  if (done == all) finish_line();
}

void Progress::step(const StepReport& report) {
  if (terminal_) return;
  log::info(  // the line of Darknet, which many scripts read
      "{}, {:.3f}: {:.6f}, {:.6f} avg, {:.6f} rate, {:.3f} seconds, {} images, "
      "{:.1f} images/s{}{}",
      report.iteration, report.epoch, report.loss, report.average_loss, report.learning_rate,
      report.seconds, report.images, report.images_per_second,
      report.has_classes ? fmt::format(", {:.2f} % correct", 100 * report.average_accuracy) : "",
      report.simulated_seconds ? ", " + simulated(*report.simulated_seconds) : "");
}

void Progress::evaluation(const EvaluationReport& report, int classes) {
  finish_line();
  if (!quiet_) log::line(line(report, classes));
}

std::string Progress::line(const EvaluationReport& report, int classes) {
  const StepReport& at = report.at;
  return fmt::format("iteration {}, epoch {:.2f}{}: {}", at.iteration, at.epoch,
                     at.simulated_seconds ? ", " + simulated(*at.simulated_seconds) : "",
                     tested(report.tally, classes));
}

std::string tested(const Tally& tally, int classes) {
  if (classes == 0)
    return fmt::format("test loss {:.4f} on {:.0f} images", tally.mean_loss(), tally.images);
  return fmt::format(
      "test loss {:.4f}, test accuracy {:.2f} %{} on {:.0f} images", tally.mean_loss(),
      100 * tally.accuracy(),
      classes > 5 ? fmt::format(" (top 5: {:.2f} %)", 100 * tally.top5_accuracy()) : "",
      tally.images);
}

void Progress::finish_line() {
  if (common_ != nullptr) common_->finish();
  if (std::exchange(open_line_, false)) std::fputc('\n', stderr);
}

}  // namespace omni
