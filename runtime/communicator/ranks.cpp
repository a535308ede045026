#include "runtime/communicator/ranks.hpp"

#include <dlfcn.h>
#include <fmt/format.h>
#include <sched.h>
#include <starpu.h>

#include <algorithm>
#include <atomic>
#include <chrono>
#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <future>
#include <memory>
#include <string_view>

#include "runtime/communicator/keeper.hpp"
#include "runtime/communicator/lifelines.hpp"
#include "runtime/communicator/service.hpp"
#include "runtime/log.hpp"
#include "runtime/own_command.hpp"
#include "runtime/tasks/recorder.hpp"

namespace omni::ranks {
namespace {

constexpr int kUp = 3, kMore = 4, kExchange = 7;      // tags
constexpr std::size_t kPiece = std::size_t{1} << 18;  // values per message of bring() and fetch()

Service* service = nullptr;  // null: there is one rank; else lives to the end of the process
bool disbanded = false;
// Of the Apart: the number in the job of its first rank, and the number of its ranks; 0: none.
std::atomic<int> apart_from = 0, apart_count = 0;
int supposed = 1;  // the number of ranks given to suppose(); counts only without a service
int (*exit_code_of)(ErrorKind) = nullptr;

Error no_library(const std::string& what) {
  return {ErrorKind::usage, "", "several processes were started, but " + what,
          "build with MPICH (libmpich-dev), or start one"};
}

Result<std::filesystem::path> find_library() {
  std::error_code none;
  const std::filesystem::path program = std::filesystem::read_symlink("/proc/self/exe", none);
  std::filesystem::path path = program.parent_path().parent_path() / "lib/omnivore/libomni_mpi.so";
  if (!std::filesystem::exists(path, none)) return no_library("this program was built without MPI");
  return path;
}

Result<OpenTransport> load_library() {
  OMNI_TRY(const std::filesystem::path path, find_library());
  void* const library = dlopen(path.c_str(), RTLD_NOW | RTLD_LOCAL);
  if (library == nullptr) return no_library(std::string("MPI cannot be loaded: ") + dlerror());
  return reinterpret_cast<OpenTransport>(dlsym(library, kOpenTransport));
}

void await(const std::vector<Message>& messages) {
  const auto done = std::make_shared<std::promise<void>>();
  const trace::Nanoseconds from = recording::on() ? recording::now() : 0;
  post(messages, [done] { done->set_value(); });
  done->get_future().wait();
  for (const Message& each : messages)
    if (!each.sends && from != 0)
      recording::write(trace::Transfer{
          .bytes = each.bytes, .from = from, .to = recording::now(), .from_rank = each.peer});
}

// Gathers `bytes` bytes of every rank, in the order of the ranks. Each round doubles the number of
// ranks whose bytes a rank has (Bruck's algorithm), so no rank sends more than any other.
std::vector<char> exchange(const void* own, std::size_t bytes) {
  std::vector<char> all(bytes * size());  // at first those of this rank, the next one, and so on
  if (bytes == 0) return all;
  if (service == nullptr) {
    for (int rank = 0; rank < size(); ++rank) std::memcpy(all.data() + bytes * rank, own, bytes);
    return all;
  }
  std::memcpy(all.data(), own, bytes);
  for (int have = 1; have < size(); have *= 2) {
    const std::size_t more = bytes * std::min(have, size() - have);
    await({{all.data(), more, (rank() + size() - have) % size(), kExchange, true},
           {all.data() + bytes * have, more, (rank() + have) % size(), kExchange, false}});
  }
  std::ranges::rotate(all, all.end() - static_cast<std::ptrdiff_t>(bytes * rank()));
  return all;
}

template <class T>
std::vector<T> exchange_values(std::span<const T> own) {
  const std::vector<char> bytes = exchange(own.data(), own.size_bytes());
  std::vector<T> all(bytes.size() / sizeof(T));
  std::memcpy(all.data(), bytes.data(), bytes.size());
  return all;
}

std::vector<int> usable_cores() {
  cpu_set_t set;
  std::vector<int> cores;
  if (sched_getaffinity(0, sizeof set, &set) == 0)
    for (int core = 0; core < CPU_SETSIZE; ++core)
      if (CPU_ISSET(core, &set)) cores.push_back(core);
  return cores;
}

}  // namespace

Result<Launch> read_launch(const Environment& environment) {
  const auto number = [&](const char* name, int otherwise) {
    const char* text = environment(name);
    return text != nullptr && *text != '\0' ? std::atoi(text) : otherwise;
  };
  const auto is_set = [&](const char* name) { return environment(name) != nullptr; };
  // A task of srun has SLURM_PROCID. A batch script has it, too, but has no SLURM_STEP_ID.
  const bool by_srun = is_set("SLURM_STEP_ID") && is_set("SLURM_PROCID");
  Launch launch{
      .by_mpi = is_set("PMI_RANK") || is_set("PMI_FD") || is_set("PMI_PORT") || is_set("PMIX_RANK"),
      .tasks = 1,
      .by_hydra = is_set("HYDI_CONTROL_FD")};
  if (launch.by_mpi)
    launch.tasks = number("PMI_SIZE", number("SLURM_STEP_NUM_TASKS", 0));
  else if (is_set("OMPI_COMM_WORLD_SIZE"))
    launch.tasks = number("OMPI_COMM_WORLD_SIZE", 1);
  else if (by_srun)
    launch.tasks = number("SLURM_STEP_NUM_TASKS", 1);
  if (launch.tasks > 1 && !launch.by_mpi)
    return Error{ErrorKind::usage, "",
                 fmt::format("{} processes were started without MPICH's start-up information: each "
                             "would train alone",
                             launch.tasks),
                 by_srun ? "srun --mpi=pmi2, or one task" : "start it with MPICH's mpiexec"};
  return launch;
}

Status start(int (*exit_code)(ErrorKind), double patience) {
  exit_code_of = exit_code;
  OMNI_TRY(const Launch launch, read_launch([](const char* name) { return std::getenv(name); }));
  if (!launch.by_mpi || launch.tasks == 1) return {};
  OMNI_TRY(const OpenTransport open, load_library());
  Service* const started =  // never deleted, because its thread uses it
      std::make_unique<Service>(open,
                                Service::Options{.silent_code = exit_code(ErrorKind::device),
                                                 .stopped_code = exit_code(ErrorKind::interrupted),
                                                 .aborts = launch.by_hydra,
                                                 .patience = patience})
          .release();
  if (started->size() == 1) return {};
  service = started;
  std::vector<std::string> hosts = gather(own_host());
  service->set_hosts(std::move(hosts));
  log::speak_as(rank(), name(rank()));
  hold_lifelines([](int gone) { service->gone = gone; });
  return {};
}

int rank() { return place_in_job().rank - apart_from; }
int size() {
  if (service == nullptr) return supposed;
  return disbanded ? 1 : apart_count > 0 ? apart_count.load() : service->size();
}
Place place_in_job() {
  return service != nullptr ? Place{service->rank(), service->size()} : Place();
}
Apart::Apart(int first, int count) {
  apart_from = first;
  apart_count = count;
}
Apart::~Apart() { apart_from = apart_count = 0; }

Status suppose(int ranks) {
  if (ranks > 1) OMNI_CHECK(find_library());
  supposed = ranks;
  return {};
}

std::string name(int rank) { return name_in_job(rank + apart_from); }
std::string name_in_job(int rank) {
  if (service == nullptr || service->hosts().empty()) return fmt::format("rank {}", rank);
  return fmt::format("rank {} on {}", rank, service->hosts()[rank]);
}

void set_patience(double seconds) {
  if (several()) service->patience = seconds;
}
void note_iteration(std::uint64_t iteration) {
  tell_keeper(iteration);
  if (several()) service->iteration = iteration;
}
void post(std::vector<Message> messages, std::function<void()> done) {
  for (Message& each : messages)
    if (!each.in_job) each.peer += apart_from;
  service->post(std::move(messages), std::move(done));
}

void watch_silence(std::function<void(bool)> watch) {
  if (several()) service->watch_silence(std::move(watch));
}

std::vector<std::string> gather(const std::string& text) {
  if (!several()) return {text};
  const std::uint64_t length = text.size();
  const auto lengths = exchange_values<std::uint64_t>({&length, 1});
  std::string padded = text;
  padded.resize(std::ranges::max(lengths));
  const std::vector<char> all = exchange(padded.data(), padded.size());
  std::vector<std::string> texts;
  for (const std::uint64_t each : lengths)
    texts.emplace_back(all.data() + texts.size() * padded.size(), each);
  return texts;
}

void sum(std::span<double> values) {
  if (!several()) return;
  const auto all = exchange_values<double>({values.data(), values.size()});
  std::ranges::fill(values, 0.0);
  for (std::size_t i = 0; i < all.size(); ++i) values[i % values.size()] += all[i];
}

bool any(bool value) {
  double number = value ? 1 : 0;
  sum({&number, 1});
  return number != 0;
}

double least(double value) {
  return several() ? std::ranges::min(exchange_values<double>({&value, 1})) : value;
}

// The first rank asks for each piece. Otherwise MPI might keep all pieces of all ranks in the first
// rank's memory.
void bring(std::span<float> values) {
  char more = 0;
  for (std::size_t at = 0; at < values.size(); at += kPiece) {
    const auto piece = values.subspan(at, std::min(kPiece, values.size() - at));
    await({{&more, 1, 0, kMore, false}});
    await({{piece.data(), piece.size_bytes(), 0, kUp, true}});
  }
}

void fetch(int from, std::size_t count, const std::function<void(std::span<const float>)>& use) {
  char more = 0;
  for (std::vector<float> piece; count > 0; count -= piece.size()) {
    piece.resize(std::min(kPiece, count));
    await({{&more, 1, from, kMore, true},
           {piece.data(), piece.size() * sizeof(float), from, kUp, false}});
    use(piece);
  }
}

std::vector<int> share_of_cores(const std::vector<int>& cores, int place, int sharers) {
  const auto count = static_cast<int>(cores.size());
  if (count < sharers) return {cores[place % count]};
  return {cores.begin() + place * count / sharers, cores.begin() + (place + 1) * count / sharers};
}

int share_cores() {
  const std::vector<int> cores = usable_cores();
  std::string own = own_host();
  for (const int core : cores) own += fmt::format(" {}", core);
  const std::vector<std::string> all = gather(own);
  const auto same = [&](auto first, auto last) {
    return static_cast<int>(std::count(first, last, own));
  };
  const std::vector<int> share =
      share_of_cores(cores, same(all.begin(), all.begin() + rank()), same(all.begin(), all.end()));
  const char* floating = std::getenv("STARPU_WORKERS_NOBIND");
  if (floating == nullptr || std::string_view(floating) == "0") {
    cpu_set_t set;
    CPU_ZERO(&set);
    for (const int core : share) CPU_SET(core, &set);
    sched_setaffinity(0, sizeof set, &set);
  }
  return static_cast<int>(share.size());
}

IdleWorkers::IdleWorkers() {
  watch_silence([asleep = false](bool silence) mutable {
    if (!silence && !asleep) return;
    const bool sleep = silence && starpu_task_nready() == 0;
    if (sleep == asleep) return;
    asleep = sleep;
    sleep ? starpu_pause() : starpu_resume();
  });
}

void disband() {
  if (!first()) leave(0);
  disbanded = true;
}

void leave(int code) {
  if (service == nullptr) std::exit(code);
  service->leave(code);
}

void leave_for(const Error& error) {
  if (several()) end_job(error);
}

void end_job(const Error& error) {
  log::error("{}", error.message());
  leave(exit_code_of(error.kind));
}

}  // namespace omni::ranks
