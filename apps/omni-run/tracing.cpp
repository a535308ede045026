#include "apps/omni-run/tracing.hpp"

#include "apps/omni-run/setup.hpp"
#include "codelets/dense/peaks.hpp"
#include "runtime/log.hpp"
#include "runtime/own_command.hpp"

namespace omni {

Result<std::unique_ptr<Recorder>> start_trace(const std::string& folder, const Session& session,
                                              const Net& net) {
  if (folder.empty()) return std::unique_ptr<Recorder>();
  trace::Header header;
  header.host = own_host();
  header.command = for_shell(own_words());
  header.net = net.name();
  header.batch = net.options().batch;
  OMNI_TRY(auto recorder, Recorder::start(folder, header));
  if (recorder->folder() == std::filesystem::path(folder))
    log::info("tracing to {}", folder);
  else
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
