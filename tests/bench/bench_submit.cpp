// Measures the cost of one empty task through Omnivore's typed codelet, against StarPU's own
// starpu_task_insert, and the cost of recording a task. Tasks of both kinds alternate in blocks,
// and their medians are compared. With taskset -c 0 one CPU does everything, so that no part of a
// cost hides behind another one.
#include <fmt/format.h>
#include <starpu.h>
#include <stdlib.h>

#include <algorithm>
#include <chrono>
#include <filesystem>
#include <vector>

#include "runtime/tasks/codelet.hpp"
#include "runtime/tasks/recorder.hpp"
#include "runtime/tasks/session.hpp"
#include "scheduling/policy/omni_policy.hpp"

namespace {

using namespace omni;

struct EmptyArgs {
  int value;
};
void nothing(const EmptyArgs&, const Buffers&, DeviceContext&) {}
Codelet<EmptyArgs> empty({.name = "bench_empty",
                          .implementations = {{"cpu", nothing}},
                          .cost = [](const EmptyArgs&) { return Cost{}; },
                          .footprint = [](const EmptyArgs&) { return std::uint64_t{1}; }});

void plain_nothing(void**, void*) {}
starpu_perfmodel plain_model{};
starpu_codelet plain{};

constexpr int kTasks = 20000, kBlocks = 15, kInFlight = 200;  // at most, as in a training

using Tensors = std::vector<std::unique_ptr<Tensor>>;

template <class Submit>
double microseconds_per_task(Submit submit) {
  const auto before = std::chrono::steady_clock::now();
  for (int i = 0; i < kTasks; ++i) {
    submit(i);
    if (i % kInFlight == 0) starpu_task_wait_for_n_submitted(kInFlight);
  }
  starpu_task_wait_for_all();
  return std::chrono::duration<double, std::micro>(std::chrono::steady_clock::now() - before)
             .count() /
         kTasks;
}

double median(std::vector<double> values) {
  std::sort(values.begin(), values.end());
  return values[values.size() / 2];
}

std::string range(const std::vector<double>& values) {
  return fmt::format("{:.2f} ({:.2f} to {:.2f})", median(values),
                     *std::min_element(values.begin(), values.end()),
                     *std::max_element(values.begin(), values.end()));
}

void compare_with_starpu(const Tensors& tensors) {
  std::vector<double> ours, theirs, ratios;
  for (int block = 0; block < kBlocks; ++block) {
    theirs.push_back(microseconds_per_task([&](int i) {
      starpu_task_insert(&plain, STARPU_VALUE, &i, sizeof i, STARPU_RW, tensors[i % 64]->handle(),
                         0);
    }));
    ours.push_back(microseconds_per_task([&](int i) {
      empty.submit({i}, {read_write(*tensors[static_cast<std::size_t>(i % 64)])});
    }));
    if (block > 0) ratios.push_back(ours.back() / theirs.back());  // the first warms up
  }
  fmt::print(
      "empty task, RW on 64 handles: starpu_task_insert {:.2f} us, ours {:.2f} us, ratio {}\n",
      median(theirs), median(ours), range(ratios));
}

// Each task accesses four tensors. LeNet's tasks access 3.3 on average.
int measure_recording(const Tensors& tensors) {
  std::string folder = (std::filesystem::temp_directory_path() / "bench-XXXXXX").string();
  if (mkdtemp(folder.data()) == nullptr) return 1;
  const auto submit = [&](int i) {
    const auto tensor = [&](int next) -> Tensor& {
      return *tensors[static_cast<std::size_t>((i + next) % 64)];
    };
    empty.submit({i},
                 {read_write(tensor(0)), read(tensor(16)), read(tensor(32)), read(tensor(48))});
  };
  std::vector<double> differences;
  for (int block = 0; block < kBlocks; ++block) {
    const double without = microseconds_per_task(submit);
    auto recorder = Recorder::start(folder + "/trace", {});
    if (!recorder) {
      fmt::print(stderr, "{}\n", recorder.error().message());
      std::filesystem::remove_all(folder);
      return 1;
    }
    const double with = microseconds_per_task(submit);
    recorder->reset();  // once per run, it waits for the disk
    std::filesystem::remove_all(folder + "/trace");
    if (block > 0) differences.push_back(with - without);
  }
  std::filesystem::remove_all(folder);
  fmt::print("recording a task with 4 accesses: {} us\n", range(differences));
  return 0;
}

}  // namespace

int main() {
  SessionOptions options;
  options.policy = &omni_policy();
  auto session = Session::start(options);
  if (!session) {
    fmt::print(stderr, "{}\n", session.error().message());
    return 1;
  }
  plain_model.type = STARPU_HISTORY_BASED;
  plain_model.symbol = "bench_plain";
  starpu_codelet_init(&plain);
  plain.cpu_funcs[0] = plain_nothing;
  plain.nbuffers = 1;
  plain.modes[0] = STARPU_RW;
  plain.model = &plain_model;

  Tensors tensors;
  for (int i = 0; i < 64; ++i) {
    tensors.push_back(std::make_unique<Tensor>("bench", 16));
    if (!tensors.back()->allocate()) return 1;
  }
  fmt::print("scheduler {}\n", session->scheduler());
  compare_with_starpu(tensors);
  return measure_recording(tensors);
}
