// Times every fast implementation of convolution, local and connected on the shapes of files. The
// program uses one thread, and the first GPU if there is one. Tensors are floats at every
// precision.
//   bench_ops [SHAPES.txt ...] [--images N] [--impl NAME] [--precision fp32|tf32|bf16]
// Default: tests/bench/shapes/*.txt, 8 images, all implementations, fp32.
#include <fmt/format.h>

#include <algorithm>
#include <chrono>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <memory>
#include <optional>
#include <sstream>
#include <vector>

#include "codelets/convolution/convolution.hpp"
#include "codelets/dense/connected.hpp"
#include "codelets/dense/connected_update.hpp"
#include "codelets/dense/local.hpp"
#include "runtime/rng.hpp"
#include "runtime/tasks/codelet.hpp"

#ifdef OMNI_CUDA
#include "runtime/cuda/check.hpp"
#endif

namespace {

using namespace omni;

// A codelet's last implementation is the GPU's. It is measured last, so that the tensors, which are
// in managed memory, move to the GPU once per codelet.
#ifdef OMNI_CUDA
bool gpu_present() {
  int devices = 0;
  return cudaGetDeviceCount(&devices) == cudaSuccess && devices > 0;
}
void wait_for_gpu() { check(cudaDeviceSynchronize(), "running a kernel"); }
void* allocate(std::size_t bytes) {
  void* memory = nullptr;
  if (!gpu_present()) return std::malloc(bytes);
  check(cudaMallocManaged(&memory, bytes), "allocating memory for all devices");
  return memory;
}
void deallocate(void* memory) {
  if (gpu_present())
    cudaFree(memory);
  else
    std::free(memory);
}
#else
bool gpu_present() { return false; }
void wait_for_gpu() {}
void* allocate(std::size_t bytes) { return std::malloc(bytes); }
void deallocate(void* memory) { std::free(memory); }
#endif

class Values {
 public:
  explicit Values(std::int64_t count)
      : data_(static_cast<float*>(allocate(sizeof(float) * static_cast<std::size_t>(count)))) {
    Draws draws(Philox(1, RandomStream::init), 0);
    for (std::int64_t i = 0; i < count; ++i) data_.get()[i] = draws.uniform(-1, 1);
  }
  float* data() const { return data_.get(); }

 private:
  struct Deallocate {
    void operator()(float* memory) const { deallocate(memory); }
  };
  std::unique_ptr<float, Deallocate> data_;
};

// Returns the shortest time of the runs that fit in about a fifth of a second. Other programs can
// only make a run slower.
template <class Run>
double best_seconds(Run run) {
  using Clock = std::chrono::steady_clock;
  double best = 1e30, total = 0;
  for (int i = 0; i < 3 || total < 0.2; ++i) {
    const auto before = Clock::now();
    run();
    const double seconds = std::chrono::duration<double>(Clock::now() - before).count();
    best = std::min(best, seconds);
    total += i == 0 ? 0 : seconds;  // the first run makes primitives and scratch memory
  }
  return best;
}

std::string only;  // this implementation; empty: all
bool timed_any = false;

std::optional<Precision> precision_named(const std::string& name) {
  for (const Precision each : {Precision::fp32, Precision::tf32, Precision::bf16})
    if (name == name_of(each)) return each;
  return {};
}

template <class Args>
void time_codelet(const std::string& shape, const Codelet<Args>& codelet, const Args& args,
                  const std::vector<void*>& buffers) {
  for (const Implementation<Args>& each : codelet.implementations()) {
    const bool on_gpu = each.role == Role::gpu;
    if (each.role == Role::reference || (on_gpu && !gpu_present()) ||
        (each.supports != nullptr && !each.supports(args)) || (!only.empty() && each.name != only))
      continue;
    timed_any = true;
    const int repeats = on_gpu ? 10 : 1;  // per wait, which takes longer than a small kernel
    const double seconds = best_seconds([&] {
                             for (int i = 0; i < repeats; ++i)
                               each.kernel(args, Buffers(buffers), DeviceContext::current());
                             if (on_gpu) wait_for_gpu();
                           }) /
                           repeats;
    const Cost cost = codelet.cost(args);
    fmt::print("{:<18} {:<26} {:<10} {:>10.3f} ms {:>8.1f} GFLOP/s {:>8.1f} GB/s\n", shape,
               codelet.name(), each.name, 1e3 * seconds, 1e-9 * cost.flops / seconds,
               1e-9 * cost.bytes / seconds);
  }
}

void time_convolution(const std::string& name, const ConvShape& shape) {
  const Values src(shape.src_count()), dst(shape.dst_count()), weights(shape.weights_count()),
      bias(shape.filters);
  time_codelet(name, conv_forward, {.shape = shape, .has_bias = true},
               {src.data(), weights.data(), dst.data(), bias.data()});
  time_codelet(name, conv_backward_weights, {.shape = shape, .has_bias = true},
               {src.data(), dst.data(), weights.data(), bias.data()});
  time_codelet(name, conv_backward_data, {.shape = shape},
               {dst.data(), weights.data(), src.data()});
}

void time_local(const std::string& name, const LocalShape& shape) {
  const Values src(shape.conv.src_count()), dst(shape.conv.dst_count()),
      weights(shape.weights_count()), bias(shape.outputs());
  time_codelet(name, local_forward, {.shape = shape},
               {src.data(), weights.data(), bias.data(), dst.data()});
  time_codelet(name, local_backward_weights, {.shape = shape},
               {src.data(), dst.data(), weights.data(), bias.data()});
  time_codelet(name, local_backward_data, {.shape = shape},
               {dst.data(), weights.data(), src.data()});
}

void time_connected(const std::string& name, const ConnectedShape& shape) {
  const Values src(shape.src_count()), dst(shape.dst_count()), weights(shape.weights_count()),
      bias(shape.outputs), velocity(shape.weights_count()), bias_velocity(shape.outputs);
  time_codelet(name, connected_forward, {.shape = shape, .has_bias = true},
               {src.data(), weights.data(), dst.data(), bias.data()});
  time_codelet(name, connected_backward_weights, {.shape = shape, .has_bias = true},
               {src.data(), dst.data(), weights.data(), bias.data()});
  time_codelet(
      name, connected_backward_update, {.shape = shape, .weights = {}, .bias = {}},
      {src.data(), dst.data(), weights.data(), velocity.data(), bias.data(), bias_velocity.data()});
  time_codelet(name, connected_backward_data, {.shape = shape},
               {dst.data(), weights.data(), src.data()});
}

bool time_file(const std::filesystem::path& path, int images) {
  std::ifstream file(path);
  std::string line;
  for (int number = 1; std::getline(file, line); ++number) {
    std::istringstream words(line);
    std::string kind, name;
    if (!(words >> kind) || kind.starts_with('#')) continue;
    ConvShape conv{.n = images};
    ConnectedShape connected{.n = images};
    words >> name;
    if ((kind == "conv" || kind == "local") && words >> conv.h >> conv.w >> conv.c >>
                                                   conv.filters >> conv.kernel_h >> conv.stride_h >>
                                                   conv.pad_h >> conv.groups) {
      conv.kernel_w = conv.kernel_h, conv.stride_w = conv.stride_h, conv.pad_w = conv.pad_h;
      if (kind == "local")
        time_local(name, {conv});
      else
        time_convolution(name, conv);
    } else if (kind == "connected" && words >> connected.inputs >> connected.outputs) {
      time_connected(name, connected);
    } else {
      fmt::print(stderr, "{}:{}: not a shape: {}\n", path.string(), number, line);
      return false;
    }
  }
  return file.eof();
}

}  // namespace

int main(int argc, char** argv) {
  int images = 8;
  std::vector<std::filesystem::path> files;
  ImplementationPolicy policy;
  for (int i = 1; i < argc; ++i) {
    const std::string option = argv[i], value = i + 1 < argc ? argv[i + 1] : "";
    if (!option.starts_with("--")) {
      files.emplace_back(option);
      continue;
    }
    ++i;
    if (option == "--images" && std::atoi(value.c_str()) > 0) {
      images = std::atoi(value.c_str());
    } else if (option == "--impl" && !value.empty()) {
      only = value;
    } else if (option == "--precision" && precision_named(value)) {
      policy.precision = *precision_named(value);
    } else {
      fmt::print(stderr, "{} {}: not an option\n", option, value);
      return 2;
    }
  }
  set_implementation_policy(policy);
  if (files.empty())
    for (const auto& entry : std::filesystem::directory_iterator(OMNI_SHAPES))
      files.push_back(entry);
  std::sort(files.begin(), files.end());
  for (const auto& file : files)
    if (!time_file(file, images)) {
      fmt::print(stderr, "{}: cannot be used\n", file.string());
      return 2;
    }
  if (!timed_any) {
    fmt::print(stderr, "nothing to time: no shape, or none with such an implementation\n");
    return 2;
  }
  return 0;
}
