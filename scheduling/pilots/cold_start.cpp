// This pilot trains the first iterations with one group. Parameters change the most at the
// beginning, so stale gradients do the most harm there (Omnivore).
#include "scheduling/pilots/registry.hpp"
#include "scheduling/training/trainer.hpp"

namespace omni {
namespace {

class ColdStart : public Pilot {
 public:
  ColdStart(std::uint64_t iterations, int groups) : iterations_(iterations), groups_(groups) {}

  std::string_view name() const override { return "cold-start"; }
  std::uint64_t next_rest() const override { return cold_ ? iterations_ : UINT64_MAX; }

  Status begin(Trainer& training, std::span<const double> /*saved*/) override {
    cold_ = training.state().iteration < iterations_;
    return training.use_groups(cold_ ? 1 : groups_);
  }

  Status rested(Trainer& training) override {
    if (!cold_ || training.state().iteration < iterations_) return {};
    cold_ = false;
    return training.use_groups(groups_);
  }

 private:
  std::uint64_t iterations_;
  int groups_;  // after the cold start
  bool cold_ = false;
};

const PilotRegistration cold_start_registration(
    {.name = "cold-start",
     .counts_iterations = true,
     .make = [](const PilotOptions& options) -> std::unique_ptr<Pilot> {
       if (options.cold_start == 0 || options.groups == 1) return nullptr;
       return std::make_unique<ColdStart>(options.cold_start, options.groups);
     }});

}  // namespace
}  // namespace omni
