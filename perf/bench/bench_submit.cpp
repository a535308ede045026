// What one empty task costs through our typed codelet, against StarPU's own starpu_task_insert:
// blocks of both alternate in one process, and the medians are compared.
#include <fmt/format.h>
#include <starpu.h>

#include <algorithm>
#include <chrono>
#include <vector>

#include "runtime/tasks/codelet.hpp"
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

constexpr int kTasks = 20000, kBlocks = 15;

template <class Submit>
double microseconds_per_task(Submit submit) {
  const auto before = std::chrono::steady_clock::now();
  for (int i = 0; i < kTasks; ++i) submit(i);
  starpu_task_wait_for_all();
  return std::chrono::duration<double, std::micro>(std::chrono::steady_clock::now() - before)
             .count() /
         kTasks;
}

double median(std::vector<double> values) {
  std::sort(values.begin(), values.end());
  return values[values.size() / 2];
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

  std::vector<std::unique_ptr<Tensor>> tensors;
  for (int i = 0; i < 64; ++i) {
    tensors.push_back(std::make_unique<Tensor>("bench", 16));
    if (!tensors.back()->allocate()) return 1;
  }
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
      "empty task, RW on 64 handles, scheduler {}: starpu_task_insert {:.2f} us, ours {:.2f} us, "
      "median ratio {:.2f} ({:.2f} to {:.2f})\n",
      session->scheduler(), median(theirs), median(ours), median(ratios),
      *std::min_element(ratios.begin(), ratios.end()),
      *std::max_element(ratios.begin(), ratios.end()));
  return 0;
}
