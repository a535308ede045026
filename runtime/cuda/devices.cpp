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
#endif

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

#else

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
  }
  for (const int number : numbers) {
    const auto gpu = std::find_if(gpus.found.begin(), gpus.found.end(),
                                  [=](const Gpu& each) { return each.number == number; });
    if (gpu == gpus.found.end())
      return Error{ErrorKind::device, "--gpus " + wanted,
                   gpus.found.empty() ? "there is no GPU: " + gpus.none_because
                                      : fmt::format("there is no GPU {}", number),
                   "omni-run devices lists them"};
    chosen.push_back(*gpu);
  }
  return chosen;
}

}  // namespace omni
