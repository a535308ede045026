#include "tests/simgrid/devices.hpp"

#include <fmt/format.h>
#include <starpu.h>
#include <sys/mman.h>

#include <algorithm>
#include <cerrno>
#include <cmath>
#include <cstdlib>
#include <cstring>
#include <limits>
#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <tuple>

namespace omni::test {
namespace {

// StarPU believes a measured time after this many samples, and counts a sample as wrong beyond this
// relative error. See starpu_perfmodel and STARPU_HISTORY_MAX_ERROR.
constexpr unsigned kToBelieve = 10;
constexpr double kMaxError = 0.5;

struct Measured {
  double mean = 0;  // us
  unsigned samples = 0, misses = 0;
};
using Key = std::tuple<const starpu_codelet*, std::uint32_t, starpu_worker_archtype, unsigned>;

DeviceOptions options;
std::map<Key, Measured> models;
std::map<starpu_data_handle_t, starpu_worker_archtype> kept;
std::map<std::string, std::map<std::string, Done>> counted;
Bounds bounds;
decltype(starpu_codelet::can_execute) engine_can_execute = nullptr;

constexpr double kNever = std::numeric_limits<double>::infinity();

double by_rates(const starpu_task& task, const Rates& rates) {  // us
  double bytes = 0;
  for (int i = 0; i < task.nbuffers; ++i)
    bytes += static_cast<double>(starpu_data_get_size(task.handles[i]));
  return 1e6 * (rates.overhead + std::max(task.flops / rates.flops, bytes / rates.bytes));
}

// The file name of a model contains the codelet's implementations. If a codelet has other
// implementations now, its record would silently be ignored, so the program ends.
void refuse_old_records(const starpu_codelet& codelet) {
  const std::string name = std::string("omni_") + codelet.name;
  for (const auto& each : std::filesystem::directory_iterator(options.recorded)) {
    const std::string file = each.path().filename().string();
    if (!file.starts_with(name)) continue;
    const auto end = file.find_first_not_of("0123456789", name.size());
    if (end == std::string::npos || file[end] != '.') continue;
    fmt::print(stderr, "{}: recorded with other implementations than {} has\n",
               each.path().string(), codelet.model->symbol);
    std::_Exit(EXIT_FAILURE);  // StarPU, which asks, knows no exceptions
  }
}

// This program is built without CUDA. Records of a program with CUDA have names that end in .cuda.
starpu_perfmodel* record_of(const starpu_codelet& codelet) {
  static std::map<const starpu_codelet*, starpu_perfmodel> records;
  const auto [found, is_new] = records.try_emplace(&codelet);
  starpu_perfmodel& record = found->second;
  for (const char* kind : {"", ".cuda"}) {
    const auto file = options.recorded / (std::string(codelet.model->symbol) + kind);
    if (!is_new || !std::filesystem::exists(file)) continue;
    record.type = STARPU_HISTORY_BASED;
    starpu_perfmodel_load_file(file.c_str(), &record);
  }
  if (is_new && record.type != STARPU_HISTORY_BASED) refuse_old_records(codelet);
  return record.type == STARPU_HISTORY_BASED ? &record : nullptr;
}

std::optional<double> recorded(const starpu_task& task, unsigned implementation) {  // us
  starpu_perfmodel* record = record_of(*task.cl);
  if (record == nullptr) return std::nullopt;
  const auto* measured = starpu_perfmodel_get_model_per_devices(
      record, static_cast<int>(implementation), STARPU_CPU_WORKER, 0, 1, -1);
  const std::uint32_t footprint = task.cl->model->footprint(const_cast<starpu_task*>(&task));
  for (const auto* each = measured == nullptr ? nullptr : measured->list; each; each = each->next)
    if (each->entry->footprint == footprint) return each->entry->mean;
  return std::nullopt;
}

// Returns microseconds. If one implementation was recorded, implementations without a record cannot
// run.
double on_core(const starpu_task& task, unsigned implementation) {
  if (options.recorded.empty()) return by_rates(task, options.core);
  if (const auto length = recorded(task, implementation)) return *length;
  for (unsigned other = 0; other < STARPU_MAXIMPLEMENTATIONS; ++other)
    if (recorded(task, other)) return kNever;
  return by_rates(task, options.core);
}

double best_on_core(const starpu_task& task) {
  double best = kNever;
  for (unsigned implementation = 0; implementation < STARPU_MAXIMPLEMENTATIONS; ++implementation)
    if (task.cl->cpu_funcs[implementation] != nullptr)
      best = std::min(best, on_core(task, implementation));
  return best;
}

void learn(Measured& model, double took) {
  if (model.samples > 0 && std::abs(took / model.mean - 1) > kMaxError) {
    if (++model.misses >= model.samples) model = {};
    return;
  }
  model.mean += (took - model.mean) / ++model.samples;
}

bool is_named(const starpu_task& task, unsigned worker) {
  return task.workerids_len == 0 || (worker / 32 < task.workerids_len &&
                                     (task.workerids[worker / 32] >> worker % 32 & 1u) != 0);
}

void count(const starpu_task& task, starpu_worker_archtype type, double took) {
  Done& sum = counted[task.cl->name][starpu_worker_get_type_as_string(type)];
  ++sum.tasks;
  sum.flops += task.flops;
  sum.seconds += took / 1e6;
  sum.trespasses += is_named(task, static_cast<unsigned>(starpu_worker_get_id())) ? 0 : 1;
}

// StarPU calls this function for the task that a worker starts, to let simulated time pass, and for
// other tasks, to predict their time.
double cost(starpu_task* task, starpu_perfmodel_arch* arch, unsigned implementation) {
  const starpu_worker_archtype type = arch->devices[0].type;
  const double truth =
      type == STARPU_CPU_WORKER ? on_core(*task, implementation) : by_rates(*task, options.gpu);
  const bool starts = starpu_task_get_current() == task;
  if (starts) count(*task, type, truth);
  const bool poisoned = type == STARPU_CUDA_WORKER && options.poisoned == task->cl->name;
  if (!options.learning && !poisoned) return truth;

  const Key key{task->cl, task->cl->model->footprint(task), type, implementation};
  auto [found, is_new] = models.try_emplace(key);
  Measured& model = found->second;
  if (is_new && poisoned) model = {.mean = options.poison * 1e6, .samples = kToBelieve};
  if (starts) {
    learn(model, truth);
    return truth;
  }
  return model.samples < kToBelieve ? std::nan("") : model.mean;
}

// Only cores can decode images.
bool may_run_on_gpu(const starpu_codelet& codelet) {
  return std::string_view(codelet.name) != "decode_batch";
}

// Returns whether the codelet joins several slices, so that its tasks belong to no slice.
bool joins_slices(const starpu_codelet& codelet) {
  const std::string_view name = codelet.name;
  return name == "split_columns" || name == "join_columns" || name == "sum_parts";
}

bool may_run_on(starpu_worker_archtype type, const starpu_task& task) {
  if (kept.empty() || joins_slices(*task.cl)) return true;
  return std::none_of(task.handles, task.handles + task.nbuffers, [&](starpu_data_handle_t data) {
    const auto found = kept.find(data);
    return found != kept.end() && found->second != type;
  });
}

int can_execute(unsigned worker, starpu_task* task, unsigned implementation) {
  const starpu_worker_archtype type = starpu_worker_get_type(static_cast<int>(worker));
  if (!may_run_on(type, *task)) return 0;
  if (type == STARPU_CUDA_WORKER) return implementation == 0 && may_run_on_gpu(*task->cl);
  if (options.gpus_only && may_run_on_gpu(*task->cl)) return 0;
  return engine_can_execute(worker, task, implementation) != 0 &&
         on_core(*task, implementation) < kNever;
}

void never_run(void*[], void*) {}

void note_submission(const starpu_task& task) {
  const bool for_gpus = may_run_on_gpu(*task.cl) && starpu_cuda_worker_get_count() > 0;
  bounds.add(task, options.gpus_only && for_gpus ? kNever : best_on_core(task),
             for_gpus ? by_rates(task, options.gpu) : kNever);
}

void put_on_simulated_devices(starpu_codelet& codelet) {
  if (codelet.can_execute == can_execute) return;
  engine_can_execute = codelet.can_execute;  // the same of all codelets
  codelet.can_execute = can_execute;
  if (may_run_on_gpu(codelet)) {
    codelet.cuda_funcs[0] = never_run;
    codelet.cuda_flags[0] = STARPU_CUDA_ASYNC;
  }
  codelet.model->type = STARPU_PER_ARCH;
  codelet.model->arch_cost_function = cost;
}

}  // namespace

void simulate_devices(const DeviceOptions& chosen) { options = chosen; }
void keep_on(starpu_worker_archtype type, starpu_data_handle_t data) { kept[data] = type; }
void count_from_now() {
  counted.clear();
  bounds = {};
}
const Bounds& submitted() { return bounds; }
const std::map<std::string, std::map<std::string, Done>>& done() { return counted; }

}  // namespace omni::test

// No kernel runs, so all tensors may lie in the same memory, and a gigabyte of parameters need not
// be touched. Each tensor has an address of its own, because StarPU identifies data by address.
extern "C" int __wrap_starpu_malloc_flags(void** memory, std::size_t bytes, int) {
  constexpr std::size_t kMemory = std::size_t{1} << 30, kStep = 64, kTensors = 1 << 18;
  static char* const shared = static_cast<char*>(
      mmap(nullptr, kMemory, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0));
  static std::size_t tensors = 0;
  if (shared == MAP_FAILED || bytes > kMemory - kTensors * kStep || tensors == kTensors)
    return -ENOMEM;
  *memory = shared + kStep * tensors++;
  return 0;
}
extern "C" int __wrap_starpu_free_flags(void*, std::size_t, int) { return 0; }

extern "C" int __real_starpu_task_submit(starpu_task* task);
extern "C" int __wrap_starpu_task_submit(starpu_task* task) {
  omni::test::put_on_simulated_devices(*task->cl);
  omni::test::note_submission(*task);
  return __real_starpu_task_submit(task);
}
