#include "runtime/cuda/devices.hpp"

#include <fmt/format.h>

#include <cstdlib>
#include <limits>
#include <optional>
#include <string_view>

#ifdef OMNI_CUDA
#include <cuda_runtime.h>
#include <cudnn.h>
#include <starpu_config.h>
#endif

#include "runtime/log.hpp"
#include "runtime/number_in.hpp"

namespace omni {
namespace {

std::optional<int> gpu_number(std::string_view text) {
  const auto number = number_in<int>(text);
  return number && *number >= 0 ? number : std::nullopt;
}

}  // namespace

#ifdef OMNI_CUDA

Gpus find_gpus() {
  Gpus gpus;
  int count = 0;
  if (const cudaError_t code = cudaGetDeviceCount(&count); code != cudaSuccess) {
    cudaGetLastError();
    gpus.none_because =
        code == cudaErrorInsufficientDriver
            ? "no NVIDIA driver is loaded, or it is older than CUDA " +
                  fmt::format("{}.{}", CUDART_VERSION / 1000, CUDART_VERSION / 10 % 100)
            : cudaGetErrorString(code);
    return gpus;
  }
  for (int number = 0; number < count; ++number) {
    cudaDeviceProp properties{};
    if (const cudaError_t code = cudaGetDeviceProperties(&properties, number);
        code != cudaSuccess) {
      cudaGetLastError();
      gpus.none_because = fmt::format("GPU {}: {}", number, cudaGetErrorString(code));
      continue;
    }
    gpus.found.push_back({.number = number,
                          .name = properties.name,
                          .memory = properties.totalGlobalMem,
                          .major = properties.major,
                          .minor = properties.minor});
  }
  return gpus;
}

namespace {

constexpr std::size_t kMostGpus = STARPU_MAXCUDADEVS;

// CMakeLists.txt has kernels compiled for this architecture and for later ones.
constexpr int kOldestMajor = 8;

// Returns how many bytes of a GPU StarPU may take: the user's limit for all GPUs, else for this
// GPU. Without a limit, returns the largest number.
std::size_t limit_of(int number) {
  for (const std::string& name :
       {std::string("STARPU_LIMIT_CUDA_MEM"), fmt::format("STARPU_LIMIT_CUDA_{}_MEM", number)})
    if (const char* mebibytes = std::getenv(name.c_str()))
      if (const auto value = gpu_number(mebibytes)) return static_cast<std::size_t>(*value) << 20;
  return std::numeric_limits<std::size_t>::max();
}

// CMake demands the same version of the library at compile time.
constexpr std::size_t kOldestCudnn = 90800;

// Returns why a GPU cannot be used; "": it can. CUDA fails if another process uses the GPU
// exclusively, or if it is broken. Notes how much memory is left, because StarPU would wait for
// ever for memory that another process has.
std::string why_unusable(Gpu& gpu) {
  if (gpu.major < kOldestMajor)
    return fmt::format("its compute capability is {}.{}, and this is compiled for {}.0 and later",
                       gpu.major, gpu.minor, kOldestMajor);
  if (const std::size_t cudnn = cudnnGetVersion(); cudnn < kOldestCudnn)
    return fmt::format("cuDNN is {}.{}, and 9.8 or later is needed", cudnn / 10000,
                       cudnn / 100 % 100);
  std::size_t free = 0, all = 0;
  cudaError_t code = cudaSetDevice(gpu.number);
  if (code == cudaSuccess) code = cudaFree(nullptr);  // starts CUDA on the GPU
  if (code == cudaSuccess) code = cudaMemGetInfo(&free, &all);
  if (code != cudaSuccess) {
    cudaGetLastError();
    return cudaGetErrorString(code);
  }
  gpu.left = left_by_libraries(free);
  gpu.for_tensors = std::min(gpu.left >> 20 << 20, limit_of(gpu.number));  // in whole MiB
  return "";
}

}  // namespace

void let_starpu_use(const Gpu& gpu) {
  if (limit_of(gpu.number) != std::numeric_limits<std::size_t>::max()) return;
  setenv(fmt::format("STARPU_LIMIT_CUDA_{}_MEM", gpu.number).c_str(),
         fmt::to_string(gpu.for_tensors >> 20).c_str(), 1);
}

#else

namespace {

constexpr std::size_t kMostGpus = 0;
std::string why_unusable(Gpu&) { return ""; }

}  // namespace

void let_starpu_use(const Gpu&) {}

Gpus find_gpus() { return {.found = {}, .none_because = "this omni-run was built without CUDA"}; }

#endif

Result<std::vector<int>> gpu_numbers(const std::string& wanted) {
  std::vector<int> numbers;
  if (wanted == "all" || wanted == "none") return numbers;
  const Error no_list{ErrorKind::usage, "--gpus " + wanted, "is no list of GPUs",
                      "all, none, or numbers: --gpus 0,1"};
  if (wanted.empty()) return no_list;
  for (std::size_t begin = 0, end = 0; begin <= wanted.size(); begin = end + 1) {
    end = std::min(wanted.find(',', begin), wanted.size());
    const auto number = gpu_number(std::string_view(wanted).substr(begin, end - begin));
    if (!number) return no_list;
    if (std::ranges::find(numbers, *number) != numbers.end())
      return Error{ErrorKind::usage, "--gpus " + wanted, fmt::format("names {} twice", *number),
                   "once is enough"};
    numbers.push_back(*number);
  }
  return numbers;
}

Result<ChosenGpus> choose_gpus(const std::string& wanted) {
  if (wanted == "none") return ChosenGpus{};
  const bool all = wanted == "all";
  OMNI_TRY(const std::vector<int> numbers, gpu_numbers(wanted));
  const Gpus gpus = find_gpus();
  ChosenGpus result;
  std::vector<Gpu>& chosen = result.gpus;
  if (all) {
    const char* limit = std::getenv("STARPU_NCUDA");
    constexpr int kNoLimit = std::numeric_limits<int>::max();
    const int most = limit == nullptr ? kNoLimit : gpu_number(limit).value_or(kNoLimit);
    for (Gpu gpu : gpus.found) {
      std::string& why = result.left_out[gpu.number];
      if (gpu.number >= most) {
        why = fmt::format("STARPU_NCUDA is {}", most);
        continue;  // the user excluded it
      }
      why = chosen.size() == kMostGpus ? fmt::format("StarPU was built for {} GPUs", kMostGpus)
                                       : why_unusable(gpu);
      if (!why.empty()) {
        log::warn("GPU {} is left out: {}", gpu.number, why);
        continue;
      }
      result.left_out.erase(gpu.number);
      chosen.push_back(std::move(gpu));
    }
    return result;
  }
  for (const Gpu& gpu : gpus.found)
    if (std::ranges::find(numbers, gpu.number) == numbers.end())
      result.left_out[gpu.number] = "--gpus does not name it";
  for (const int number : numbers) {
    const auto gpu = std::ranges::find(gpus.found, number, &Gpu::number);
    if (gpu == gpus.found.end())
      return Error{ErrorKind::device, "--gpus " + wanted,
                   gpus.found.empty() ? "there is no GPU: " + gpus.none_because
                                      : fmt::format("there is no GPU {}", number),
                   "omni-run devices lists them"};
    chosen.push_back(*gpu);
    if (const std::string why = why_unusable(chosen.back()); !why.empty())
      return Error{ErrorKind::device, "--gpus " + wanted,
                   fmt::format("GPU {} cannot be used: {}", number, why),
                   "nvidia-smi shows who has it"};
  }
  if (chosen.size() > kMostGpus)
    return Error{ErrorKind::device, "--gpus " + wanted,
                 fmt::format("StarPU was built for {} GPUs", kMostGpus), "name fewer"};
  return result;
}

}  // namespace omni
