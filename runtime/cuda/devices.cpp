#include "runtime/cuda/devices.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <charconv>
#include <cstdlib>
#include <optional>
#include <ranges>
#include <string_view>

#ifdef OMNI_CUDA
#include <cuda_runtime.h>
#include <starpu_config.h>
#endif

#include "runtime/log.hpp"

namespace omni {

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

// Empty: it can be used. Another process may have it for itself, or it may be broken.
std::string why_unusable(int number) {
  cudaError_t code = cudaSetDevice(number);
  if (code == cudaSuccess) code = cudaFree(nullptr);  // starts it
  if (code == cudaSuccess) return "";
  cudaGetLastError();
  return cudaGetErrorString(code);
}

}  // namespace

#else

namespace {

constexpr std::size_t kMostGpus = 0;
std::string why_unusable(int) { return ""; }

}  // namespace

Gpus find_gpus() { return {.found = {}, .none_because = "this omni-run was built without CUDA"}; }

#endif

namespace {

std::optional<int> number_in(std::string_view text) {
  int number = 0;
  const auto [end, problem] = std::from_chars(text.data(), text.data() + text.size(), number);
  if (problem != std::errc() || end != text.data() + text.size() || number < 0) return std::nullopt;
  return number;
}

}  // namespace

Result<std::vector<Gpu>> choose_gpus(const std::string& wanted) {
  if (wanted == "none") return std::vector<Gpu>{};
  const bool all = wanted == "all";
  const Error no_list{ErrorKind::usage, "--gpus " + wanted, "is no list of GPUs",
                      "all, none, or numbers: --gpus 0,1"};
  if (wanted.empty()) return no_list;
  std::vector<int> numbers;
  for (const auto part : std::views::split(wanted, ',')) {
    if (all) break;
    const auto number = number_in(std::string_view(part.begin(), part.end()));
    if (!number) return no_list;
    if (std::find(numbers.begin(), numbers.end(), *number) != numbers.end())
      return Error{ErrorKind::usage, "--gpus " + wanted, fmt::format("names {} twice", *number),
                   "once is enough"};
    numbers.push_back(*number);
  }
  const Gpus gpus = find_gpus();
  std::vector<Gpu> chosen;
  if (all) {
    const char* limit = std::getenv("STARPU_NCUDA");
    const int most = limit == nullptr ? -1 : number_in(limit).value_or(-1);
    chosen = gpus.found;
    if (most >= 0) chosen.resize(std::min(chosen.size(), static_cast<std::size_t>(most)));
    std::erase_if(chosen, [](const Gpu& gpu) {
      const std::string why = why_unusable(gpu.number);
      if (!why.empty()) log::warn("GPU {} is left out: {}", gpu.number, why);
      return !why.empty();
    });
    if (chosen.size() > kMostGpus) {
      log::warn("{} GPUs, of which StarPU was built for {}", chosen.size(), kMostGpus);
      chosen.resize(kMostGpus);
    }
  }
  for (const int number : numbers) {
    const auto gpu = std::find_if(gpus.found.begin(), gpus.found.end(),
                                  [=](const Gpu& each) { return each.number == number; });
    if (gpu == gpus.found.end())
      return Error{ErrorKind::device, "--gpus " + wanted,
                   gpus.found.empty() ? "there is no GPU: " + gpus.none_because
                                      : fmt::format("there is no GPU {}", number),
                   "omni-run devices lists them"};
    if (const std::string why = why_unusable(number); !why.empty())
      return Error{ErrorKind::device, "--gpus " + wanted,
                   fmt::format("GPU {} cannot be used: {}", number, why),
                   "nvidia-smi shows who has it"};
    chosen.push_back(*gpu);
  }
  if (chosen.size() > kMostGpus)
    return Error{ErrorKind::device, "--gpus " + wanted,
                 fmt::format("StarPU was built for {} GPUs", kMostGpus), "name fewer"};
  return chosen;
}

}  // namespace omni
