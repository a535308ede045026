#include "tests/support/second_node.hpp"

#include <fmt/format.h>
#include <starpu.h>
#include <starpu_opencl.h>

#include <algorithm>
#include <array>
#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <mutex>
#include <set>
#include <stdexcept>
#include <utility>

#include "scheduling/policy/omni_policy.hpp"

namespace omni::test {
namespace {

struct State {
  SecondNode::Placement placement;
  std::mutex mutex;
  std::map<std::string, SecondNode::Count> counts;
  std::set<std::string> complaints;
};
std::unique_ptr<State> state;

void must(cl_int code, const char* what) {
  if (code != CL_SUCCESS) throw std::runtime_error(fmt::format("OpenCL: {}: {}", what, code));
}

// The second node's memory is filled with this value before a task writes it. As a float it is NaN.
constexpr std::uint32_t kPoison = 0xFFBADBAD;

// A Mapped is one buffer of a running task on the second node, mapped into the host's memory.
class Mapped {
 public:
  Mapped(cl_command_queue queue, const void* vector, starpu_data_access_mode mode)
      : queue_(queue), mode_(mode) {
    std::memcpy(&interface_, vector, sizeof interface_);
    memory_ = reinterpret_cast<cl_mem>(interface_.dev_handle);
    cl_int code = 0;
    void* pointer = clEnqueueMapBuffer(queue, memory_, CL_TRUE, CL_MAP_READ | CL_MAP_WRITE,
                                       interface_.offset, bytes(), 0, nullptr, nullptr, &code);
    must(code, "map");
    interface_.ptr = reinterpret_cast<uintptr_t>(pointer);
    if (only_written() && interface_.elemsize == sizeof kPoison)
      std::fill_n(words(), interface_.nx, kPoison);
    if (only_read())
      before_.assign(static_cast<char*>(pointer), static_cast<char*>(pointer) + bytes());
  }
  ~Mapped() {
    must(clEnqueueUnmapMemObject(queue_, memory_, reinterpret_cast<void*>(interface_.ptr), 0,
                                 nullptr, nullptr),
         "unmap");
    must(clFinish(queue_), "finish");
  }
  Mapped(const Mapped&) = delete;
  Mapped& operator=(const Mapped&) = delete;

  void* interface() { return &interface_; }
  // Returns what the task did against its access modes, or null.
  const char* complaint() const {
    if (only_read() && std::memcmp(before_.data(), words(), bytes()) != 0)
      return "changed what it reads";
    return nullptr;
  }

 private:
  bool only_read() const { return (mode_ & STARPU_RW) == STARPU_R; }
  bool only_written() const { return (mode_ & STARPU_RW) == STARPU_W; }
  std::size_t bytes() const { return interface_.nx * interface_.elemsize; }
  std::uint32_t* words() const { return reinterpret_cast<std::uint32_t*>(interface_.ptr); }

  cl_command_queue queue_;
  starpu_data_access_mode mode_;
  starpu_vector_interface interface_;
  cl_mem memory_;
  std::vector<char> before_;
};

// StarPU calls this function for each task on the second node.
template <std::size_t implementation>
void run_there(void* interfaces[], void* arguments) {
  const starpu_task* task = starpu_task_get_current();
  cl_command_queue queue;
  starpu_opencl_get_queue(starpu_worker_get_devid(starpu_worker_get_id_check()), &queue);
  std::vector<std::unique_ptr<Mapped>> buffers;
  std::array<void*, STARPU_NMAXBUFS> mapped;
  for (int i = 0; i < task->nbuffers; ++i) {
    const auto at = static_cast<std::size_t>(i);
    buffers.push_back(std::make_unique<Mapped>(queue, interfaces[i], task->modes[i]));
    mapped[at] = buffers.back()->interface();
  }
  task->cl->cpu_funcs[implementation](mapped.data(), arguments);
  const std::lock_guard lock(state->mutex);
  ++state->counts[task->cl->name].there;
  for (std::size_t i = 0; i < buffers.size(); ++i)
    if (const char* complaint = buffers[i]->complaint())
      state->complaints.insert(fmt::format("{}, buffer {}: {}", task->cl->name, i, complaint));
}

// Function i runs the codelet's CPU implementation i on the second node.
constexpr auto kRunThere = []<std::size_t... i>(std::index_sequence<i...>) {
  return std::array<starpu_opencl_func_t, sizeof...(i)>{run_there<i>...};
}
(std::make_index_sequence<STARPU_MAXIMPLEMENTATIONS>());

std::int32_t places(Where where) {
  switch (where) {
    case Where::anywhere:
      return STARPU_CPU | STARPU_OPENCL;
    case Where::main_memory:
      return STARPU_CPU;
    case Where::second_node:
      return STARPU_OPENCL;
  }
  return 0;
}

}  // namespace

SecondNode::SecondNode(Placement placement) {
  state = std::make_unique<State>();
  state->placement = std::move(placement);
}

SecondNode::~SecondNode() { state.reset(); }

std::map<std::string, SecondNode::Count> SecondNode::counts() const {
  const std::lock_guard lock(state->mutex);
  return state->counts;
}

std::vector<std::string> SecondNode::complaints() const {
  const std::lock_guard lock(state->mutex);
  return {state->complaints.begin(), state->complaints.end()};
}

Result<Session> start_session(const std::string& scheduler, bool deterministic) {
  const bool two = state != nullptr;
  setenv("STARPU_NOPENCL", two ? "1" : "0", 1);  // how many
  setenv("STARPU_OPENCL_ONLY_ON_CPUS", "1", 1);
  setenv("STARPU_WORKERS_NOBIND", "1", 1);  // else it would take the core of a CPU worker
  SessionOptions options;
  options.cpu_workers = 2;
  options.policy = &omni_policy();
  options.scheduler = scheduler;
  options.deterministic = deterministic;
  // StarPU measures the machine once with the second node, and once without it.
  options.models = std::filesystem::path(std::getenv("STARPU_HOME")) / (two ? "two" : "one");
  auto session = Session::start(options);
  if (session && two && starpu_opencl_worker_get_count() == 0)
    return Error{ErrorKind::device, "OpenCL", "no device", "install PoCL (pocl-opencl-icd)"};
  return session;
}

}  // namespace omni::test

// With --wrap, the linker replaces the engine's calls of starpu_task_submit by this function.
extern "C" int __real_starpu_task_submit(starpu_task* task);
extern "C" int __wrap_starpu_task_submit(starpu_task* task) {
  using namespace omni::test;
  for (std::size_t i = 0; i < kRunThere.size() && task->cl->cpu_funcs[i] != nullptr; ++i)
    task->cl->opencl_funcs[i] = kRunThere[i];
  if (state != nullptr) {
    task->where = places(state->placement(task->cl->name));
    const std::lock_guard lock(state->mutex);
    ++state->counts[task->cl->name].submitted;
  }
  return __real_starpu_task_submit(task);
}
