// This file chooses a way to compute a pass: from the ChoiceTable or, if that has none, by
// measuring what cuDNN offers. A few offers are tried at once, and the others while a training goes
// on. If the time of later calls counts, all are tried at once. In a deterministic run the first
// offer that works is taken. Too little memory for it is then an error.
#include <algorithm>
#include <map>
#include <new>
#include <utility>

#include "codelets/convolution/cudnn/convolution_plan.hpp"
#include "codelets/cuda/trial_time.hpp"
#include "runtime/tasks/calls/task_chain.hpp"

namespace omni::cudnn {
namespace {

// At most this many variants of one engine, which differ in their knobs, are tried. cuDNN offers up
// to 39, those that it expects to be best first. On Hopper nearly all offers are of one engine. The
// number is above ten, so that programs that try ten offers do not find a better one.
constexpr int kMostVariants = 12;

constexpr int kAtOnce = 4;  // ways that are tried when a shape is first met

// The ChoiceTable stores a Form as these bits.
constexpr std::uint64_t kEnds = 1, kFolds = 2, kSplits = 4;

}  // namespace

// The following functions find what cuDNN offers.

std::vector<ConvolutionPlan::Offer> ConvolutionPlan::offers(const Target& target, Form form) const {
  std::map<std::uint64_t, int> variants;  // so far, by engine
  std::vector<Offer> found;
  for (const EngineConfig& config : engine_configs(graph(form, target), target))
    if (config.meets(demands_) && variants[config.numbers[0]]++ < kMostVariants)
      found.push_back({form, config.numbers});
  return found;
}

std::deque<ConvolutionPlan::Offer> ConvolutionPlan::offers(const Target& target) const {
  std::vector<std::vector<Offer>> of_forms;
  for (const Form form : forms()) of_forms.push_back(offers(target, form));
  std::deque<Offer> all;
  for (std::size_t i = 0, before = 1; before != 0; ++i) {
    before = all.size();
    for (const auto& of_form : of_forms)
      if (i < of_form.size()) all.push_back(of_form[i]);
    before = all.size() - before;
  }
  return all;
}

std::optional<ConvolutionPlan::Way> ConvolutionPlan::way(const Target& target,
                                                         const Offer& offer) const {
  EngineConfig config = engine_config(graph(offer.form, target), target, offer.engine);
  if (!config.meets(demands_)) return std::nullopt;
  ExecutionPlan plan(config, target);
  if (!succeeds(plan.status()) || plan.workspace_bytes() > most_workspace_) return std::nullopt;
  return Way{offer.form, std::move(config), std::move(plan)};
}

// Returns false after an error, so that another way is tried. In a deterministic run, lack of
// memory throws instead, because memory must not decide on the way.
bool ConvolutionPlan::succeeds(cudnnStatus_t status) const {
  if (demands_.deterministic) check_memory(status, "a convolution");
  return status == CUDNN_STATUS_SUCCESS;
}

// Returns whether the way works. If cuDNN adds the bias, the trial has a bias of NaN, because
// cuDNN's relu may lose NaN although it is asked to keep it.
bool ConvolutionPlan::works(CudaWorker& worker, const Way& way, ConvolutionTensors tensors,
                            std::byte* memory) const {
  const auto runs = [&] { return succeeds(enqueue(worker, way, tensors, memory)); };
  if (!way.form.ends) return runs();
  const std::size_t bytes = sizeof(float) * task_.shape.filters;
  const TrialMemory nan(worker, bytes);
  nan.fill(0xFF, bytes);
  tensors.bias = nan.data();
  return runs() && kept_nan(worker, tensors.values[result_], bytes_of_result_value());
}

bool ConvolutionPlan::take(CudaWorker& worker, const ConvolutionTensors& tensors, Way way) {
  try {
    auto* memory = static_cast<std::byte*>(worker.workspace(memory_for(way)));
    if (!works(worker, way, tensors, memory)) return false;
    way_.emplace(std::move(way));
    return true;
  } catch (const std::bad_alloc&) {  // the memory that is left is too little
    if (demands_.deterministic) throw;
    lacked_memory_ = true;
  }
  return false;
}

bool ConvolutionPlan::take_numbers(CudaWorker& worker, const ConvolutionTensors& tensors,
                                   const Numbers& numbers) {
  if (numbers.empty()) return false;
  const Form form{(numbers[0] & kEnds) != 0, (numbers[0] & kFolds) != 0,
                  (numbers[0] & kSplits) != 0};
  // The task must allow this Form.
  const std::vector<Form> allowed = forms();
  if (std::ranges::find(allowed, form) == allowed.end()) return false;
  std::optional<Way> one =
      way({.handle = worker.dnn()}, {form, {numbers.begin() + 1, numbers.end()}});
  return one && take(worker, tensors, std::move(*one));
}

float ConvolutionPlan::time(CudaWorker& worker, const Way& way, const ConvolutionTensors& tensors,
                            std::byte* memory, float best) const {
  return shortest_time(
      worker.stream(),
      [&] { return enqueue(worker, way, tensors, memory) == CUDNN_STATUS_SUCCESS; }, best);
}

bool ConvolutionPlan::try_one(CudaWorker& worker, const ConvolutionTensors& tensors,
                              const Offer& offer) {
  const Trial counts;
  try {
    std::optional<Way> one = way({.handle = worker.dnn()}, offer);
    if (!one) return false;
    // Half of the free memory is left to others. Without a workspace nothing is needed.
    std::size_t free = 0, total = 0;
    check(cudaMemGetInfo(&free, &total), "asking for free memory");
    if (memory_for(*one) > free / 2) {
      lacked_memory_ = true;
      return false;
    }
    float took = kNever;
    {
      const TrialMemory memory(worker, memory_for(*one));
      if (!works(worker, *one, tensors, memory.data())) return false;
      took = time(worker, *one, tensors, memory.data(), milliseconds_);
    }
    if (took < milliseconds_ && take(worker, tensors, std::move(*one))) milliseconds_ = took;
    return true;
  } catch (const std::bad_alloc&) {
    lacked_memory_ = true;
    return false;
  }
}

// Counts an offer that was tried; `at_rest` is false if other work has disturbed the trial. The
// next run begins behind the offers that all count. Returns whether it is time to store their
// number.
bool ConvolutionPlan::count(bool at_rest) {
  all_count_ &= at_rest && !lacked_memory_;
  return all_count_ && ++tried_ % kAtOnce == 0;
}

// If there was too little memory for an offer, another run may have more of it.
ChoiceTable::Choice ConvolutionPlan::choice() const {
  using enum ChoiceTable::Trials;
  const bool all = untried_.empty() && !lacked_memory_ && !accepts_disturbed_;
  return {numbers(), all ? finished : unfinished, all ? 0 : tried_};
}

ChoiceTable& ConvolutionPlan::table(const CudaWorker& worker) const {
  return ChoiceTable::shared(worker.device_name(), {"cuDNN", cudnnGetVersion()});
}

ConvolutionPlan::Numbers ConvolutionPlan::numbers() const {
  const Form& form = way_->form;
  Numbers all{(form.ends ? kEnds : 0) | (form.folds ? kFolds : 0) | (form.splits ? kSplits : 0)};
  all.insert(all.end(), way_->config.numbers.begin(), way_->config.numbers.end());
  return all;
}

std::optional<ChoiceTable::Choice> ConvolutionPlan::search(CudaWorker& worker,
                                                           const ConvolutionTensors& tensors) {
  const Target target{.handle = worker.dnn()};
  const TrialTime& budget = TrialTime::of_process();
  const bool all = budget.lifted() || time_counts();
  bool others_computed = false;
  untried_ = offers(target);
  for (int tried = 0;
       !untried_.empty() && (!usable() || all || (tried < kAtOnce && budget.left()));) {
    const CudaWorker::OthersAtRest others(worker);
    tried += try_one(worker, tensors, untried_.front()) ? 1 : 0;
    untried_.pop_front();
    count(others.so_far());
    others_computed |= !others.so_far();
  }
  if (!usable()) return std::nullopt;
  if (!others_computed) return choice();
  (void)has_waited();
  if (time_counts()) {  // no later call repeats the trials
    accepts_disturbed_ = true;
    return choice();
  }
  untried_ = offers(target);
  tried_ = 0;
  all_count_ = true;
  return ChoiceTable::Choice{numbers(), ChoiceTable::Trials::disturbed};
}

// Call it when other workers compute. Returns whether they have done so for long. Then trials may
// decide although they are disturbed.
bool ConvolutionPlan::has_waited() {
  const auto now = TrialTime::Clock::now();
  if (!waits_since_) waits_since_ = now;
  const std::chrono::duration<double> waited = now - *waits_since_;
  return waited.count() >= TrialTime::of_process().patience();
}

// Both ways are timed one after the other, because the GPU's clock may have changed since the way
// that is used was chosen.
void ConvolutionPlan::go_on(CudaWorker& worker, const ConvolutionTensors& tensors) {
  const CudaWorker::OthersAtRest others(worker);
  if (!others.so_far() && !has_waited()) return;
  const Numbers before = numbers();
  bool accepts_first = false;  // true: this is the first disturbed trial that is accepted
  const Offer offer = std::move(untried_.front());
  untried_.pop_front();
  try {
    std::optional<TrialMemory> apart;
    ConvolutionTensors on = tensors;
    if (task_.adds) {
      apart.emplace(worker, static_cast<std::size_t>(counts_[result_]) * bytes_of_result_value());
      on.values[result_] = apart->data();
    }
    milliseconds_ = [&] {
      const Trial counts;
      return time(worker, *way_, on, static_cast<std::byte*>(worker.workspace(memory_for(*way_))));
    }();
    try_one(worker, on, offer);
    if (others.so_far()) {
      waits_since_.reset();
    } else if (has_waited()) {
      accepts_first = !std::exchange(accepts_disturbed_, true);
    } else {
      all_count_ = false;
      if (numbers() != before) take_numbers(worker, on, before);
      return untried_.push_back(offer);
    }
  } catch (const std::bad_alloc&) {  // there is no memory for trials, so there are none
    lacked_memory_ = true;
    untried_.clear();
    return;
  }
  if (count(others.so_far()) || accepts_first || untried_.empty() || numbers() != before)
    table(worker).keep(description(), choice());
}

void ConvolutionPlan::choose(CudaWorker& worker, const ConvolutionTensors& tensors) {
  // If the result will be overwritten anyway, trials write to it. Otherwise they write to `apart`.
  std::optional<TrialMemory> apart;
  ConvolutionTensors on = tensors;
  if (task_.adds) {
    apart.emplace(worker, static_cast<std::size_t>(counts_[result_]) * bytes_of_result_value());
    on.values[result_] = apart->data();
  }
  const Target target{.handle = worker.dnn()};
  // Measurements may choose another way in each run, which rounds results differently. So a
  // deterministic run does not measure.
  if (demands_.deterministic) {
    for (const Form form : forms())
      for (const Offer& offer : offers(target, form))
        if (std::optional<Way> one = way(target, offer); one && take(worker, on, std::move(*one)))
          return;
    return;
  }
  bool searched = false;
  const auto chosen = table(worker).choose(
      description(), [&](const Numbers& numbers) { return take_numbers(worker, on, numbers); },
      [&] {
        searched = true;
        return search(worker, on);
      });
  if (!chosen || chosen->trials == ChoiceTable::Trials::finished) return;
  const TrialTime& budget = TrialTime::of_process();
  if (!searched) {
    untried_ = offers(target);
    tried_ = std::min(chosen->tried, untried_.size());
    untried_.erase(untried_.begin(), untried_.begin() + static_cast<std::ptrdiff_t>(tried_));
    if (untried_.empty()) table(worker).keep(description(), choice());
  }
  // Each offer is tried at most once more, as other work may disturb all trials.
  for (std::size_t times = untried_.size();
       times > 0 && !untried_.empty() && (budget.lifted() || (time_counts() && budget.left()));
       --times)
    go_on(worker, on);
}

}  // namespace omni::cudnn
