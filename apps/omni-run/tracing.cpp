#include "apps/omni-run/tracing.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <chrono>

#include "apps/omni-run/setup.hpp"
#include "codelets/dense/peaks.hpp"
#include "runtime/communicator/ranks.hpp"
#include "runtime/log.hpp"
#include "runtime/own_command.hpp"

namespace omni {

namespace {

// Seconds by which this host's clock is behind the first rank's, to a fraction of a millisecond:
// all ranks come back from a gathering at about the same time.
double clock_behind() {
  std::array<double, 9> behind{};
  for (double& each : behind) {
    ranks::gather("");
    const double own =
        std::chrono::duration<double>(std::chrono::system_clock::now().time_since_epoch()).count();
    each = std::stod(ranks::gather(fmt::format("{}", own)).front()) - own;
  }
  std::ranges::nth_element(behind, behind.begin() + 4);
  return behind[4];
}

// The first rank chooses the folder.
Result<std::unique_ptr<Recorder>> start_recorder(std::string folder, const trace::Header& header) {
  if (!ranks::first()) folder = ranks::gather("").front();
  OMNI_TRY(auto recorder, Recorder::start(folder, header));
  if (ranks::first()) ranks::gather(recorder->folder());
  return recorder;
}

}  // namespace

Result<std::unique_ptr<Recorder>> start_trace(const std::string& folder, const Session& session,
                                              const Net& net) {
  if (folder.empty()) return std::unique_ptr<Recorder>();
  trace::Header header;
  header.host = own_host();
  header.command = for_shell(own_words());
  header.net = net.name();
  header.batch = net.options().batch;
  header.rank = ranks::rank();
  if (ranks::several()) header.started = clock_behind();
  OMNI_TRY(auto recorder, start_recorder(folder, header));
  if (recorder->folder() == std::filesystem::path(folder))
    log::info("tracing to {}", folder);
  else if (ranks::first())
    log::warn("{} holds a trace already; this one goes to {}", folder, recorder->folder().string());

  for (const auto& layer : net.layers())
    recording::write(trace::Layer{layer->index(), layer->type(), layer->detail()});
  const int cpus = cpu_workers(session);
  if (cpus == 0) return recorder;
  const CpuPeaks peaks = measure_cpu_peaks(session, cpus);
  recording::write(trace::Peak{"gemm", "CPU", peaks.gemm_alone, peaks.gemm_together});
  recording::write(trace::Peak{"copy", "CPU", peaks.copy_alone, peaks.copy_together});
  return recorder;
}

}  // namespace omni
