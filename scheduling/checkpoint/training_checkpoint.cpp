#include "scheduling/checkpoint/training_checkpoint.hpp"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <cmath>
#include <deque>

#include "runtime/checksum.hpp"
#include "runtime/files.hpp"
#include "runtime/log.hpp"
#include "runtime/shown_name.hpp"
#include "runtime/tasks/host_access.hpp"
#include "scheduling/checkpoint/kept_states.hpp"
#include "scheduling/checkpoint/saved_values.hpp"
#include "scheduling/checkpoint/training_snapshot.hpp"
#include "scheduling/checkpoint/unsent_values.hpp"

namespace omni {
namespace {

constexpr std::string_view kAdam = "Adam", kSgd = "SGD with momentum";
std::string_view solver_name(const Net& net) {
  switch (net.rule()) {
    case StepRule::nesterov: return "Nesterov";
    case StepRule::adagrad: return "AdaGrad";
    case StepRule::rmsprop: return "RMSProp";
    case StepRule::adadelta: return "AdaDelta";
    case StepRule::rated: return net.adam() ? kAdam : "SGD with the rate in its velocity";
    case StepRule::usual: break;
  }
  return net.adam() ? kAdam : kSgd;
}

// Returns an error if another solver trained the checkpoint, as solvers cannot use each other's
// optimizer state.
Status require_same_solver(const Checkpoint& checkpoint, const Net& net) {
  // Checkpoints of versions without Adam do not name the solver.
  const auto said = checkpoint.fields.text("solver");
  const std::string saved = said ? *said : std::string(kSgd);
  if (saved == solver_name(net)) return {};
  return Error{ErrorKind::usage, checkpoint.path.string(),
               fmt::format("was trained with {}, this run has {}", shown_name(saved),
                           shown_name(solver_name(net))),
               net.rule() != StepRule::usual
                   ? "resume with the solver of before, or take --weights from it"
                   : fmt::format("resume with --set adam={}", saved == kAdam ? 1 : 0)};
}

// No training has larger values than these bounds, and kMostIterations times a batch does not
// overflow.
constexpr std::uint64_t kMostIterations = 1'000'000'000'000;
constexpr double kLargestRate = 1e30;

void save_arrivals(CheckpointFields& fields, const ArrivalState& arrivals) {
  fields.set("clock_now", arrivals.clock.now);
  // If the virtual clock has more numbers, as with thousands of devices, none are saved. The groups
  // then begin anew after a resume.
  constexpr std::size_t kMostNumbers = 50'000;
  const bool fits = arrivals.clock.numbers.size() <= kMostNumbers;
  fields.set("clock_numbers", fits ? listed(arrivals.clock.numbers) : std::string());
  fields.set("clock_draws", listed(arrivals.clock.draws));
  fields.set("clock_samples", listed(arrivals.samples));
  fields.set("clock_finished", arrivals.finished);
  fields.set("clock_machine", one_line(arrivals.machine));
}

Result<std::optional<ArrivalState>> saved_arrivals(const Checkpoint& checkpoint) {
  const CheckpointFields& fields = checkpoint.fields;
  if (!fields.text("clock_now")) return std::optional<ArrivalState>();
  if (!fields.text("clock_numbers")) {
    log::warn("{}: its virtual clock is of an older program: the clock starts at 0",
              checkpoint.path.string());
    return std::optional<ArrivalState>();
  }
  ArrivalState arrivals;
  OMNI_TRY(arrivals.clock.now, fields.number("clock_now", 0.0, 1e18));
  OMNI_TRY(arrivals.clock.numbers, saved_list<double>(checkpoint, "clock_numbers"));
  OMNI_TRY(arrivals.clock.draws, saved_list<std::uint64_t>(checkpoint, "clock_draws"));
  OMNI_TRY(arrivals.samples, saved_list<std::uint64_t>(checkpoint, "clock_samples"));
  OMNI_TRY(arrivals.machine, fields.text("clock_machine"));
  OMNI_TRY(arrivals.finished, fields.number("clock_finished", -1, kMostGroups - 1));
  for (const std::uint64_t samples : arrivals.samples)
    if (samples > kMostIterations) return unreadable(checkpoint, "clock_samples");
  return std::optional(arrivals);
}

Result<StrategyState> saved_strategy(const Checkpoint& checkpoint) {
  OMNI_TRY(const std::string name, checkpoint.fields.text("strategy"));
  OMNI_TRY(std::vector<double> numbers, saved_list<double>(checkpoint, "strategy_numbers"));
  const auto sound = [](double number) {
    return number >= 0 && number < static_cast<double>(kMostIterations);
  };
  if (!std::ranges::all_of(numbers, sound)) return unreadable(checkpoint, "strategy_numbers");
  return StrategyState{name, std::move(numbers)};
}

constexpr std::string_view kPilot = "pilot_";

// Reads a pilot's numbers from a checkpoint of an older version, which had separate fields for
// them. Returns an empty list if the checkpoint lacks those fields.
Result<std::vector<double>> older_numbers(const Checkpoint& checkpoint,
                                          std::initializer_list<std::string_view> fields) {
  std::vector<double> numbers;
  if (!checkpoint.fields.text(*fields.begin())) return numbers;
  for (const std::string_view field : fields) {
    OMNI_TRY(const double number, checkpoint.fields.number(field, -kLargestRate, kLargestRate));
    numbers.push_back(number);
  }
  OMNI_TRY(const std::vector<double> losses, saved_list<double>(checkpoint, "recent_losses"));
  numbers.insert(numbers.end(), losses.begin(), losses.end());
  return numbers;
}

Status restore_pilots(const Checkpoint& checkpoint, TrainingState& state) {
  for (const auto& [key, text] : checkpoint.fields.entries()) {
    const bool older = key == "health" || key == "growth";
    if (!older && !key.starts_with(kPilot)) continue;
    OMNI_TRY(auto numbers, saved_list<double>(checkpoint, key));
    const std::string name = key == "growth" ? "growing" : older ? key : key.substr(kPilot.size());
    state.pilots[name] = std::move(numbers);
  }
  OMNI_TRY(auto guard, older_numbers(checkpoint, {"rate_share", "share_patience", "share_wait",
                                                  "next_guard", "lowest_loss", "losses_above"}));
  OMNI_TRY(auto tuned,
           older_numbers(checkpoint, {"tuned_momentum", "tuned_learning_rate", "tuning_warm",
                                      "next_search", "trials_lost", "highest_step", "returns",
                                      "lowest_loss", "losses_above"}));
  if (!tuned.empty())
    state.pilots["tuned"] = std::move(tuned);
  else if (!guard.empty())
    state.pilots["guard"] = std::move(guard);
  if (checkpoint.fields.text("simulated_before")) {
    OMNI_TRY(state.simulated_before,
             checkpoint.fields.number("simulated_before", 0.0, kLargestRate));
  }
  return {};
}

// Restores fields that older checkpoints lack. If they are missing, the time starts at 0, no
// evaluation is due, and the average accuracy is not known.
Status restore_progress(const CheckpointFields& fields, TrainingState& state) {
  if (fields.text("average_accuracy")) {
    OMNI_TRY(state.average_accuracy, fields.number("average_accuracy", 0.0, 1.0));
  }
  if (fields.text("seconds")) {
    OMNI_TRY(state.seconds, fields.number("seconds", 0.0, kLargestRate));
  }
  if (fields.text("owes_evaluation")) {
    OMNI_TRY(const std::uint64_t owes,
             fields.number("owes_evaluation", std::uint64_t{0}, std::uint64_t{1}));
    state.owes_evaluation = owes != 0;
  }
  return {};
}

// Returns a visitor that fills tensors with arrays of the checkpoint. It stops at the first array
// that does not fit.
auto filling_from(const Checkpoint& checkpoint, Status& status) {
  return [&](const std::string& name, const Param& param, const Tensor& tensor) {
    if (!status) return;
    const auto saved = saved_values(checkpoint, name, param);
    if (!saved) {
      status = saved.error();
      return;
    }
    const HostAccess access(tensor, HostAccess::Mode::write);
    std::ranges::copy(*saved, access.f32().begin());
  };
}

}  // namespace

std::string layers_hash(const NetDescription& net) { return checksum_of(net.statements); }

void bring_arrays(ComputeGroups& groups) {
  const auto bring = [](const std::string&, const Param&, const Tensor& tensor) {
    ranks::bring(HostAccess(tensor, HostAccess::Mode::read).f32());
  };
  for (const int group : groups.here())
    if (groups.ranks_of(group).first == ranks::rank())
      for_each_of_group(groups.net(group), group, bring);
  bring_unsent(groups);
}

Result<std::filesystem::path> save_training(CheckpointStore& store, ComputeGroups& groups,
                                            const TrainingState& state,
                                            const RunIdentity& identity) {
  Net& net = groups.net();
  Snapshot snapshot{
      .step = state.iteration, .cfg_hash = identity.layers, .arrays = {}, .fields = {}};
  std::deque<HostAccess> open;  // the values are read in place
  const auto add = [&](std::string name, const Param& param, const Tensor& tensor) {
    open.emplace_back(tensor, HostAccess::Mode::read);
    snapshot.arrays.push_back({std::move(name), param.shape, open.back().f32()});
  };
  for_each_array(net, add);
  for_each_replica(groups, add);
  save_kept(snapshot, net, state);
  const std::vector<float> unsent = save_unsent(snapshot, groups);
  std::size_t next = snapshot.arrays.size();  // the next array to fetch from another rank
  const FetchLater fetch_later = [&](std::string name, std::vector<std::int64_t> shape, int rank,
                                     std::size_t count) {
    const auto fetch = [&next, name, rank, count](const ByteSink& sink) {
      ++next;
      Status status;
      ranks::fetch(rank, count, [&, at = std::ptrdiff_t{0}](std::span<const float> piece) mutable {
        if (status) status = check_finite({name, {}, piece}, at);
        if (status) status = sink(std::as_bytes(piece));
        at += std::ssize(piece);
      });
      return status;
    };
    snapshot.arrays.push_back({std::move(name), std::move(shape), {}, fetch});
  };
  for (int group = 0; group < groups.count(); ++group) {
    const auto add_elsewhere = [&, rank = groups.ranks_of(group).first](
                                   std::string name, const Param& param, const Tensor& tensor) {
      fetch_later(std::move(name), param.shape, rank, tensor.count());
    };
    if (!groups.is_here(group)) for_each_of_group(groups.net(group), group, add_elsewhere);
  }
  fetch_unsent(groups, fetch_later);
  snapshot.fields.set("data", one_line(identity.data));  // a path need not be UTF-8
  if (!identity.class_names.empty())
    snapshot.fields.set("class_names", fmt::format("{}", fmt::join(identity.class_names, "\n")));
  if (identity.iterations != 0) snapshot.fields.set("planned_iterations", identity.iterations);
  if (!identity.rank_shares.empty()) {
    snapshot.fields.set("rank_shares", identity.rank_shares);
    snapshot.fields.set("rank_nodes", identity.rank_nodes);
  }
  snapshot.fields.set("iteration", state.iteration);
  snapshot.fields.set("seed", state.seed);
  if (identity.data_seed) snapshot.fields.set("data_seed", *identity.data_seed);
  snapshot.fields.set("average_loss", state.average_loss);
  if (state.average_accuracy) snapshot.fields.set("average_accuracy", *state.average_accuracy);
  snapshot.fields.set("seconds", state.seconds);
  snapshot.fields.set("owes_evaluation", std::uint64_t{state.owes_evaluation});
  snapshot.fields.set("solver", solver_name(net));
  snapshot.fields.set("batch", net.options().batch);
  snapshot.fields.set("slice", net.slices().sizes.front());
  snapshot.fields.set("groups", groups.count());
  snapshot.fields.set("samples", state.samples);
  snapshot.fields.set("strategy", state.strategy.name);
  snapshot.fields.set("strategy_numbers", listed(state.strategy.numbers));
  if (state.arrivals) save_arrivals(snapshot.fields, *state.arrivals);
  if (state.simulated_before > 0) snapshot.fields.set("simulated_before", state.simulated_before);
  for (const auto& [name, numbers] : state.pilots)
    snapshot.fields.set(std::string(kPilot) + name, listed(numbers));
  if (!state.damaged.empty()) snapshot.fields.set("damaged_images", listed(state.damaged));
  auto saved = store.save(snapshot);
  while (next < snapshot.arrays.size())  // even after an error, other ranks send their arrays
    (void)snapshot.arrays[next].fetch([](auto) { return Status(); });
  return saved;
}

Status require_same_data(const Checkpoint& checkpoint, const std::string& data) {
  const std::string where = checkpoint.path.string();
  const auto saved = checkpoint.fields.text("data");
  if (!saved)
    log::warn("{}: does not say on which data it was trained; is it {}?", where, shown_name(data));
  else if (one_line(*saved) != one_line(data))
    return Error{ErrorKind::usage, where,
                 fmt::format("was trained on the data {}, this run has {}", shown_name(*saved),
                             shown_name(data)),
                 "give the same --data, or train on with --other-data"};
  return {};
}

Status restore_parameters(Net& net, const Checkpoint& checkpoint) {
  Status status;
  for_each_array(net, filling_from(checkpoint, status));
  const auto saved = std::ranges::count_if(checkpoint.arrays.arrays(), [](const NamedArray& array) {
    return array.name.starts_with("param/");
  });
  const auto wanted = static_cast<std::ptrdiff_t>(net.params().size());
  if (status && saved != wanted)
    return Error{ErrorKind::data, checkpoint.path.string(),
                 fmt::format("has {} arrays of parameters, the net {}", saved, wanted),
                 "it belongs to another net"};
  return with_classes(std::move(status), saved_class_names(checkpoint), net);
}

Status save_parameters(Net& net, const std::filesystem::path& path) {
  OMNI_TRY(AtomicFile file, AtomicFile::create(path));
  std::deque<HostAccess> open;
  std::vector<NamedArray> arrays;
  for_each_array(net, [&](const std::string& name, const Param& param, const Tensor& tensor) {
    open.emplace_back(tensor, HostAccess::Mode::read);
    arrays.push_back({name, param.shape, open.back().f32()});
  });
  for (const NamedArray& array : arrays) OMNI_CHECK(check_finite(array));
  OMNI_CHECK(write_safetensors([&](auto bytes) { return file.write(bytes); }, arrays,
                               {{"step", "0"}, {"cfg_hash", ""}}));
  return file.commit();
}

std::vector<std::string> saved_class_names(const Checkpoint& checkpoint) {
  const auto text = checkpoint.fields.text("class_names");
  std::vector<std::string> names;
  if (text && !text->empty())
    for (const std::string_view name : split(*text, '\n')) names.emplace_back(name);
  return names;
}

Status with_classes(Status loaded, const std::vector<std::string>& names, const Net& net) {
  if (!loaded && !names.empty() && std::ssize(names) != net.classes())
    loaded.error().hint =
        fmt::format("it is of {} classes, the net of {}: use it with --classes {}; {}",
                    names.size(), net.classes(), names.size(), loaded.error().hint);
  return loaded;
}

std::uint64_t saved_length(const Checkpoint& checkpoint) {
  const auto saved = checkpoint.fields.number<std::uint64_t>("planned_iterations");
  return saved ? *saved : 0;
}

Result<std::optional<std::uint64_t>> saved_data_seed(const Checkpoint& checkpoint) {
  if (!checkpoint.fields.text("data_seed")) return std::optional<std::uint64_t>();
  OMNI_TRY(const auto seed, checkpoint.fields.number<std::uint64_t>("data_seed"));
  return std::optional(seed);
}

Result<int> saved_groups(const Checkpoint& checkpoint) {
  // Checkpoints of versions without compute groups do not have this field.
  if (!checkpoint.fields.text("groups")) return 1;
  return checkpoint.fields.number("groups", 1, kMostGroups);
}

Result<TrainingState> restore_training(ComputeGroups& groups, const Checkpoint& checkpoint,
                                       const std::string& hash, std::string_view strategy) {
  Net& net = groups.net();
  const std::string where = checkpoint.path.string();
  if (checkpoint.cfg_hash != hash && !checkpoint.cfg_hash.empty())
    log::warn("{}: was saved by a net whose layers are described differently", where);
  OMNI_CHECK(require_same_solver(checkpoint, net));
  OMNI_CHECK(restore_parameters(net, checkpoint));

  TrainingState state;
  OMNI_TRY(state.iteration,
           checkpoint.fields.number("iteration", std::uint64_t{0}, kMostIterations));
  OMNI_TRY(state.seed, checkpoint.fields.number<std::uint64_t>("seed"));
  OMNI_TRY(state.average_loss, checkpoint.fields.number<double>("average_loss"));
  OMNI_CHECK(restore_progress(checkpoint.fields, state));
  OMNI_TRY(const int batch, checkpoint.fields.number<int>("batch"));
  OMNI_TRY(const int slice, checkpoint.fields.number<int>("slice"));
  OMNI_TRY(const int group_count, saved_groups(checkpoint));
  OMNI_TRY(state.strategy, saved_strategy(checkpoint));
  OMNI_TRY(state.arrivals, saved_arrivals(checkpoint));
  OMNI_CHECK(restore_pilots(checkpoint, state));
  const bool of_older_clock = checkpoint.fields.text("clock_now") && !state.arrivals;
  if (of_older_clock) state.simulated_before = 0;
  if (checkpoint.fields.text("damaged_images")) {
    OMNI_TRY(state.damaged, saved_list<std::uint64_t>(checkpoint, "damaged_images"));
  }
  if (batch != net.options().batch)
    return Error{
        ErrorKind::usage, where,
        fmt::format("was trained with batch {}, this run has {}", batch, net.options().batch),
        fmt::format("resume with --batch {}", batch)};
  state.samples = state.iteration * batch;
  if (checkpoint.fields.text("samples")) {  // older checkpoints only counted iterations
    OMNI_TRY(state.samples,
             checkpoint.fields.number("samples", std::uint64_t{0}, kMostIterations * batch));
  }
  OMNI_CHECK(restore_kept(checkpoint, net, state));
  if (slice != net.slices().sizes.front())
    log::warn("{}: was trained with slices of {} images, now {}: sums may round differently", where,
              slice, net.slices().sizes.front());
  if (!state.strategy.name.empty() && strategy != state.strategy.name) {
    log::info(
        "{}: was trained by --strategy {}, this run has {}; every group starts from the shared "
        "model",
        where, shown_name(state.strategy.name), strategy);
    groups.refresh_replicas();
    groups.forget_updates();
  } else if (group_count == groups.count()) {
    Status filled;
    for_each_replica(groups, filling_from(checkpoint, filled));
    OMNI_CHECK(filled);
    OMNI_CHECK(restore_unsent(groups, checkpoint));
  } else {
    log::info("{}: was trained by {} compute group{}, this run has {}{}", where, group_count,
              group_count == 1 ? "" : "s", groups.count(),
              groups.count() == 1 ? fmt::format(" (--groups {} would continue them)", group_count)
                                  : "; every group starts from the shared model");
    state.strategy.numbers.clear();
    groups.refresh_replicas();
    groups.forget_updates();
  }
  return state;
}

}  // namespace omni
