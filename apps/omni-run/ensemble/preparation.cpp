// prepare_only() measures how fast the samples of an ensemble's members can be prepared, if no
// member trains on them.
#include <fmt/format.h>

#include <algorithm>
#include <map>
#include <nlohmann/json.hpp>
#include <thread>

#include "apps/omni-run/ensemble/rank_ensemble.hpp"
#include "runtime/json_text.hpp"
#include "runtime/log.hpp"
#include "runtime/number_in.hpp"
#include "runtime/tasks/own_tasks.hpp"

namespace omni {
namespace {

// Prints the rates of the members of all ranks. `own` has the numbers and rates of this rank's.
void print_rates(const nlohmann::json& own, const std::vector<std::string>& names,
                 std::uint64_t samples, bool json) {
  std::map<std::size_t, double> rates;
  for (const std::string& rank : ranks::gather(own.dump()))
    for (const auto& [number, rate] : nlohmann::json::parse(rank).get<decltype(rates)>())
      rates[number] = rate;
  if (!ranks::first()) return;
  if (json) {
    auto all = nlohmann::ordered_json::array();
    for (const auto& [number, rate] : rates)
      all.push_back({{"name", names[number]}, {"samples_per_second", shown_single(rate)}});
    const nlohmann::ordered_json object{{"samples", samples}, {"members", std::move(all)}};
    return log::result("{}\n", json_text(object));
  }
  std::size_t width = 6;
  for (const auto& [number, rate] : rates) width = std::max(width, names[number].size());
  log::result("{:{}}  samples/s\n", "member", width);
  for (const auto& [number, rate] : rates)
    log::result("{:{}}  {:>9.1f}\n", names[number], width, rate);
}

}  // namespace

Status prepare_only(const EnsembleArguments& arguments, const std::vector<std::string>& names,
                    const std::vector<std::size_t>& own, std::deque<TrainCommand>& trainings,
                    SharedTrainings& shared, RankEnsemble* ranks) {
  for (TrainCommand& each : trainings) each.shorten(*arguments.prepare_only);
  if (ranks != nullptr) OMNI_CHECK(ranks->join(shared, trainings, arguments));
  for (TrainCommand& each : trainings)
    if (Status joined = each.join_stream(); !joined) {
      if (ranks != nullptr) ranks::end_job(joined.error());  // the other ranks would wait
      return joined;
    }
  std::vector<Result<double>> rates(trainings.size(), 0.0);
  {
    std::vector<std::jthread> threads;
    for (std::size_t i = 0; i < trainings.size(); ++i)
      threads.emplace_back([&, i] {
        const log::Name name(names[own[i]]);
        OwnTasks tasks;
        const OwnTasksScope counted(tasks);
        rates[i] = trainings[i].prepare_samples();
      });
  }
  if (ranks != nullptr) OMNI_CHECK(ranks->finish());
  shared.say_damaged();
  shared.say_samples();
  std::map<std::size_t, double> measured;
  Status status;
  for (std::size_t i = 0; i < rates.size(); ++i)
    if (rates[i])
      measured[own[i]] = *rates[i];
    else
      status = rates[i].error();
  print_rates(measured, names, *arguments.prepare_only, arguments.common.json);
  return status;
}

}  // namespace omni
