// Which implementations of codelets may be chosen, for the whole process.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

namespace omni {

// Rounding of the factors in convolutions and connected layers: tf32 has 10 bits of mantissa (GPUs
// only), bf16 has 7. Sums are fp32. (Activations may be in bf16, too: BuildOptions::values.)
enum class Precision { fp32, tf32, bf16 };
constexpr const char* name_of(Precision precision) {
  return precision == Precision::fp32 ? "fp32" : precision == Precision::tf32 ? "tf32" : "bf16";
}

// Set by Session.
struct ImplementationPolicy {
  // Always the first implementation that supports the arguments, on a GPU if one has it; tasks that
  // add to one tensor keep their order.
  bool deterministic = false;
  std::string
      preferred;  // this one wherever it supports the arguments ("reference", "onednn", ...)
  std::vector<std::uint32_t> gpu_workers{};  // as WorkerSet::bits(); none: no GPU
  Precision precision = Precision::fp32;
  bool gpus_alone = false;  // cores run no task that a GPU can run
};
void set_implementation_policy(ImplementationPolicy policy);
const ImplementationPolicy& implementation_policy();

bool gpus_compute();
std::vector<std::size_t> gpu_worker_numbers();
// Whether cores run no task that a GPU can run.
bool only_gpus_compute();
// Cancels gpus_alone. Call before tensors are allocated.
void let_cores_compute();

}  // namespace omni
