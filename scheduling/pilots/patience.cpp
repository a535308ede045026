// The pilot of --patience-tests N ends a training when the test accuracy has not risen for N tests.
#include <fmt/format.h>

#include <utility>

#include "scheduling/pilots/registry.hpp"
#include "scheduling/pilots/saved_numbers.hpp"
#include "scheduling/training/trainer.hpp"

namespace omni {
namespace {

class Patience : public Pilot {
 public:
  explicit Patience(std::uint64_t tests) : tests_(tests) {}

  std::string_view name() const override { return "patience"; }

  Status begin(Trainer& training, std::span<const double> saved) override {
    if (saved.empty()) return {};
    SavedNumbers read(saved);
    best_ = read.between(-1, 1);
    in_vain_ = read.count();
    OMNI_CHECK(read.status(name()));
    return end_if_due(training);
  }

  Status tested(Trainer& training, const EvaluationReport& of) override {
    const bool better = of.tally.accuracy() > best_;
    if (better) best_ = of.tally.accuracy();
    in_vain_ = better ? 0 : in_vain_ + 1;
    return end_if_due(training);
  }

  std::vector<double> numbers() const override { return {best_, static_cast<double>(in_vain_)}; }

 private:
  Status end_if_due(Trainer& training) {
    if (in_vain_ < tests_ || std::exchange(ended_, true)) return {};
    training.say(
        fmt::format("patience: the test accuracy has not risen above {:.2f} % for {} tests",
                    100 * best_, in_vain_));
    training.end_here();
    return {};
  }

  std::uint64_t tests_;
  double best_ = -1;           // accuracy; -1: none yet
  std::uint64_t in_vain_ = 0;  // tests since the best one
  bool ended_ = false;         // by this pilot
};

constexpr DeclaredOption kPatienceTests{
    "--patience-tests", "N",
    "The training is complete when the test accuracy has not risen for N tests", whole_from(1),
    "Output"};

const PilotRegistration patience_registration(
    {.name = "patience",
     .options = {kPatienceTests},
     .needs_tests = true,
     .make = [](const PilotOptions& options) -> std::unique_ptr<Pilot> {
       const auto tests = options.own.number(kPatienceTests);
       return tests ? std::make_unique<Patience>(static_cast<std::uint64_t>(*tests)) : nullptr;
     }});

}  // namespace
}  // namespace omni
