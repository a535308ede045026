#include "tests/simgrid/machine.hpp"

#include <fmt/format.h>

#include <string>

#include "tests/support/run_program.hpp"

namespace omni::test {
namespace {

constexpr const char* kName = "simulated";
constexpr int kMostNodes = 16;  // memories that StarPU was built for (runtime/build-starpu)

std::string config(const Machine& machine) {
  std::string text = fmt::format(
      "# Current configuration\n{} # Number of CPUs\n1 # Number of NUMA nodes\n"
      "{} # Number of CUDA nodes\n",
      machine.cores + machine.gpus, machine.gpus);
  for (const char* none : {"OpenCL", "FPGA", "Disk", "MPI_MS", "TCPIP_MS", "HIP"})
    text += fmt::format("0 # Number of {} nodes\n", none);
  return text;
}

// Returns a table of `value` between every two memories, with one row for each. The first memory is
// that of the cores.
std::string between_memories(const Machine& machine, double value) {
  std::string text = "# ";
  for (int to = 0; to < kMostNodes; ++to) text += fmt::format("to {}\t", to);
  for (int from = 0; from < kMostNodes; ++from) {
    text += '\n';
    for (int to = 0; to < kMostNodes; ++to)
      text += from > machine.gpus || to > machine.gpus
                  ? "nan\t"
                  : fmt::format("{:e}\t", from == to ? 0 : value);
  }
  return text + '\n';
}

std::string affinity(const Machine& machine) {
  std::string text = "# GPU\tNUMA0\n";
  for (int gpu = 0; gpu < machine.gpus; ++gpu) text += fmt::format("{}\t0\n", gpu);
  return text;
}

// Returns SimGrid's description of the machine. Its speeds only convert StarPU's seconds to
// operations and back.
std::string platform(const Machine& machine) {
  std::string text =
      "<?xml version='1.0'?>\n<!DOCTYPE platform SYSTEM \"https://simgrid.org/simgrid.dtd\">\n"
      "<platform version=\"4.1\">\n<config id=\"General\">\n"
      "<prop id=\"network/TCP-gamma\" value=\"-1\"/><prop id=\"network/weight-S\" value=\"0\"/>\n"
      "<prop id=\"network/latency-factor\" value=\"1\"/>\n"
      "<prop id=\"network/bandwidth-factor\" value=\"1\"/>\n"
      "<prop id=\"network/crosstraffic\" value=\"0\"/>\n</config>\n"
      "<AS id=\"AS0\" routing=\"Full\">\n"
      "<host id=\"MAIN\" speed=\"1f\"/><host id=\"RAM\" speed=\"1f\"/>\n";
  for (int core = 0; core < machine.cores + machine.gpus; ++core)
    text += fmt::format("<host id=\"CPU{}\" speed=\"1e9f\"/>\n", core);
  for (int gpu = 0; gpu < machine.gpus; ++gpu)
    text += fmt::format(
        "<host id=\"CUDA{}\" speed=\"1e9f\"><prop id=\"model\" value=\"simulated\"/>"
        "<prop id=\"memsize\" value=\"{:.0f}\"/><prop id=\"memcpy_peer\" value=\"1\"/></host>\n",
        gpu, machine.gpu_memory);
  std::string routes;
  const auto memory = [](int node) {
    return node == 0 ? std::string("RAM") : fmt::format("CUDA{}", node - 1);
  };
  for (int from = 0; from <= machine.gpus; ++from)
    for (int to = 0; to <= machine.gpus; ++to) {
      if (from == to) continue;
      const std::string link = memory(from) + "-" + memory(to);
      text += fmt::format("<link id=\"{}\" bandwidth=\"{:e}Bps\" latency=\"{:e}s\"/>\n", link,
                          machine.link, machine.latency);
      routes += fmt::format(
          "<route src=\"{}\" dst=\"{}\" symmetrical=\"NO\"><link_ctn id=\"{}\"/></route>\n",
          memory(from), memory(to), link);
    }
  return text + routes + "</AS>\n</platform>\n";
}

}  // namespace

nlohmann::json simulate(const Machine& machine, nlohmann::json arguments, const char* program) {
  const TemporaryDirectory folder;
  std::filesystem::create_directories(folder / "bus");
  const auto write = [&](const char* extension, const std::string& text) {
    put(folder.path() / "bus" / (std::string(kName) + extension), text);
  };
  write(".config", config(machine));
  write(".bandwidth", between_memories(machine, machine.link / 1e6));
  write(".latency", between_memories(machine, machine.latency * 1e6));
  write(".affinity", affinity(machine));
  write(".platform.v4.xml", platform(machine));

  arguments["cores"] = machine.cores;
  arguments["gpus"] = machine.gpus;
  const Finished run = run_program(
      {"/usr/bin/env", "STARPU_PERF_MODEL_DIR=" + folder.path().string(),
       std::string("STARPU_HOSTNAME=") + kName, beside_this_program(program), arguments.dump()});
  auto result = nlohmann::json::parse(run.output, nullptr, false);
  if (run.exit_code == 0 && !result.is_discarded()) return result;
  return {{"failed", fmt::format("exit code {}: {}{}", run.exit_code, run.output, run.errors)}};
}

}  // namespace omni::test
