#include "apps/omni-run/training/time_limit.hpp"

#include <fmt/format.h>
#include <unistd.h>

#include <algorithm>
#include <ctime>
#include <utility>

#include "runtime/communicator/keeper.hpp"
#include "runtime/log.hpp"
#include "runtime/signals.hpp"
#include "runtime/slurm_job.hpp"

namespace omni {

Status TimeLimit::start(std::uint64_t bytes) {
  end_ = std::atoll(slurm::variable("SLURM_JOB_END_TIME").c_str());
  const double left = static_cast<double>(end_ - std::time(nullptr));
  if (left <= 0) end_ = 0;  // the node's clock differs, or the limit is not enforced
  if (end_ == 0) return {};
  if (Status enough = require("SLURM_JOB_END_TIME", left, bytes); !enough) {
    // What goes on without a lost rank has trained before. Its next job has more time.
    if (ranks::is_kept()) enough.error().kind = ErrorKind::interrupted;
    return enough;
  }
  log::info(
      "the job ends in {:.0f} s; the training saves and stops {:.0f} s before that, or earlier if "
      "two saves and an iteration take longer",
      left, needed());
  set_alarm();
  return {};
}

Status TimeLimit::require(const std::string& where, double left, std::uint64_t bytes) {
  save_ = static_cast<double>(bytes) / 20e6;  // 20 MB/s, a slow disk, until a save is measured
  if (left > needed()) return {};
  return Error{ErrorKind::usage, where,
               fmt::format("the job ends in {:.0f} s, and {:.0f} s before its end a checkpoint is "
                           "saved",
                           left, needed()),
               "ask for more time"};
}

void TimeLimit::note_iteration() {
  const auto before = std::exchange(last_, std::chrono::steady_clock::now());
  const double seconds = std::chrono::duration<double>(last_ - before).count();
  if (before.time_since_epoch().count() == 0 || seconds <= iteration_) return;
  iteration_ = seconds;
  set_alarm();
}

void TimeLimit::note_save(double seconds) {
  save_ = std::exchange(measured_, true) ? std::max(save_, seconds) : seconds;
  pause();
  set_alarm();
}

void TimeLimit::set_alarm() const {
  if (end_ == 0 || stop_requested()) return;
  const double left = static_cast<double>(end_ - std::time(nullptr)) - needed();
  alarm(static_cast<unsigned>(std::clamp(left, 1.0, 1e8)));
}

}  // namespace omni
