// The pilot of --keep-best keeps the checkpoint with the best test accuracy besides the newest
// ones.
#include "scheduling/pilots/registry.hpp"
#include "scheduling/pilots/saved_numbers.hpp"
#include "scheduling/training/trainer.hpp"

namespace omni {
namespace {

class KeepBest : public Pilot {
 public:
  std::string_view name() const override { return "keep-best"; }

  Status begin(Trainer& /*training*/, std::span<const double> saved) override {
    if (saved.empty()) return {};
    SavedNumbers read(saved);
    best_ = read.between(-1, 1);
    return read.status(name());
  }

  Status tested(Trainer& training, const EvaluationReport& of) override {
    if (of.tally.accuracy() <= best_) return {};
    best_ = of.tally.accuracy();
    if (Status kept = training.keep_as_best(); !kept)
      training.warn(kept.error().message() + "; going on");
    return {};
  }

  std::vector<double> numbers() const override { return {best_}; }

 private:
  double best_ = -1;  // accuracy; -1: none yet
};

constexpr DeclaredOption kKeepBest{
    "--keep-best",
    "",
    "Keep the checkpoint with the best test accuracy, too; OUT/best is a link to it",
    {},
    "Checkpoints"};

const PilotRegistration keep_best_registration(
    {.name = "keep-best",
     .options = {kKeepBest},
     .needs_tests = true,
     .saves = true,
     .make = [](const PilotOptions& options) -> std::unique_ptr<Pilot> {
       return options.own.given(kKeepBest) != nullptr ? std::make_unique<KeepBest>() : nullptr;
     }});

}  // namespace
}  // namespace omni
