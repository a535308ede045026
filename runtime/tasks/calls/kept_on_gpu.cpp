#include "runtime/tasks/calls/kept_on_gpu.hpp"

#include <starpu.h>

#include <memory>
#include <utility>

#include "runtime/tasks/calls/codelet_call.hpp"

namespace omni {
namespace {

KeptOnGpu* kept_now = nullptr;
std::uint64_t chains_so_far = 0;

}  // namespace

KeptOnGpu::KeptOnGpu(unsigned worker)
    : worker_(worker), memory_node_(starpu_worker_get_memory_node(worker)) {
  starpu_void_data_register(&gate_);
}

const KeptOnGpu::Datum* KeptOnGpu::find(const Use& use) const {
  const auto found = by_handle_.find(use.handle);
  return found == by_handle_.end() ? nullptr : found->second;
}

bool KeptOnGpu::serves(std::span<const Use> uses) const {
  bool any = false;
  for (const Use& use : uses) {
    const Datum* const datum = find(use);
    any |= datum != nullptr;
    if (datum != nullptr && datum->mode == AccessMode::read && use.mode != AccessMode::read)
      return false;
  }
  return any;  // false: these are another net's tensors, which may need the memory
}

KeptOnGpu::Kept KeptOnGpu::keep(std::span<const Use> uses, unsigned worker) {
  if (kept_now != nullptr && (kept_now->worker_ != worker || !kept_now->serves(uses))) give_back();
  std::vector<Use> again;  // tensors that the last chain used, too, and that are not kept yet
  for (const Use& use : uses)
    if (chains_so_far > 0 && use.tensor->last_chain_ == chains_so_far) again.push_back(use);
  ++chains_so_far;
  for (const Use& use : uses)
    if (use.tensor->last_chain_ != Tensor::kKept) use.tensor->last_chain_ = chains_so_far;
  if (kept_now == nullptr) {
    if (again.empty()) return {std::vector<const Datum*>(uses.size())};
    kept_now = new KeptOnGpu(worker);
  }
  if (!again.empty()) kept_now->acquire(again);
  constexpr std::uint64_t kTags = std::uint64_t{0x6f6d6e69} << 32;  // unlike the tags of other code
  const std::uint64_t launched = kTags + 2 * chains_so_far;
  Kept kept{.data = {},
            .gate = kept_now->gate_,
            .after = std::exchange(kept_now->last_launched_, launched),
            .launched = launched};
  for (const Use& use : uses) kept.data.push_back(kept_now->find(use));
  return kept;
}

void KeptOnGpu::acquire(std::span<const Use> uses) {
  Request& request = requests_.emplace_back(*this, uses.size() + 1);
  starpu_data_acquire_on_node_cb(
      gate_, STARPU_ACQUIRE_NO_NODE, STARPU_RW,
      [](void* of) { static_cast<Request*>(of)->granted(); }, &request);
  for (const Use& use : uses) {
    Datum& datum = data_.emplace_back(Datum{request, use.handle, use.tensor, use.mode, nullptr});
    by_handle_[use.handle] = &datum;
    use.tensor->last_chain_ = Tensor::kKept;
    starpu_data_acquire_on_node_cb(
        use.handle, static_cast<int>(memory_node_),
        use.mode == AccessMode::accumulate ? STARPU_RW : starpu_mode(use.mode),
        [](void* argument) {
          Datum& own = *static_cast<Datum*>(argument);
          own.memory = reinterpret_cast<void*>(STARPU_VECTOR_GET_PTR(
              starpu_data_get_interface_on_node(own.handle, own.request.kept.memory_node_)));
          own.request.granted();
        },
        &datum);
  }
}

void KeptOnGpu::Request::granted() {
  if (--awaited == 0) starpu_data_release_on_node(kept.gate_, STARPU_ACQUIRE_NO_NODE);
}

// Releases the tensors when the last chain is done. Until then other tasks that use them wait,
// because StarPU sees them as used by the program.
void KeptOnGpu::give_back() {
  if (kept_now == nullptr) return;
  KeptOnGpu* const kept = std::exchange(kept_now, nullptr);
  const DataHandle gate = kept->gate_;
  for (const Datum& datum : kept->data_) datum.tensor->last_chain_ = chains_so_far;
  starpu_data_acquire_on_node_cb(
      gate, STARPU_ACQUIRE_NO_NODE, STARPU_RW,
      [](void* argument) {
        const std::unique_ptr<KeptOnGpu> ended(static_cast<KeptOnGpu*>(argument));
        for (const Datum& datum : ended->data_)
          starpu_data_release_on_node(datum.handle, static_cast<int>(ended->memory_node_));
        starpu_tag_remove(ended->last_launched_);
        starpu_data_release_on_node(ended->gate_, STARPU_ACQUIRE_NO_NODE);
      },
      kept);
  starpu_data_unregister_submit(gate);
}

std::size_t KeptOnGpu::count() { return kept_now == nullptr ? 0 : kept_now->data_.size(); }

}  // namespace omni
