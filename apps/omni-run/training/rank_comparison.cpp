#include "apps/omni-run/training/rank_comparison.hpp"

#include <fmt/format.h>

#include <algorithm>

#include "apps/command_line.hpp"
#include "runtime/checksum.hpp"
#include "runtime/communicator/ranks.hpp"
#include "runtime/files.hpp"
#include "runtime/log.hpp"
#include "runtime/own_command.hpp"
#include "runtime/tasks/host_access.hpp"

namespace omni {
namespace {

struct Fact {
  std::string what;
  std::string value;
};

std::string contents(const Dataset& data) {
  constexpr std::size_t kLabels = 1000;
  std::string text;
  for (std::size_t i = 0; i < std::min(kLabels, data.size()); ++i)
    text += fmt::format("{} ", data.label(i * data.size() / std::min(kLabels, data.size())));
  return fmt::format("{} samples, labels {}", data.size(), checksum_of(text));
}

std::string contents(const DatasetPair& data) {
  return data.name + ", " + contents(*data.train) +
         (data.test ? ", test " + contents(*data.test) : "");
}

Status require_same(const std::vector<Fact>& facts) {
  // compare_ranks() names the program first, as another program may know other facts.
  for (Fact fact : facts) {
    std::ranges::replace(fact.value, '\n', ' ');
    const std::vector<std::string> all = ranks::gather(fact.value);
    for (int rank = 1; rank < ranks::size(); ++rank)
      if (all[rank] != all[0])
        return Error{
            ErrorKind::usage, ranks::name(rank),
            fmt::format("{} is {}, and {} on the first rank", fact.what, all[rank], all[0]),
            "all ranks must have the same"};
  }
  return {};
}

}  // namespace

Status compare_ranks(const TrainInputs& inputs) {
  if (!ranks::several()) return {};
  OMNI_TRY(const std::string program, read_file("/proc/self/exe", UINT64_MAX));
  std::vector<std::string> words = own_words();
  if (!words.empty()) words.erase(words.begin());
  const Status same =
      require_same({{"the program", fmt::format("{} ({})", kVersion, checksum_of(program))},
                    {"the command line", for_shell(words)},
                    {"the number of GPUs", std::to_string(inputs.arguments.net.gpus)},
                    {"the net description", checksum_of(inputs.spec.text)},
                    {"the data", contents(*inputs.data)},
                    {"the checkpoint", inputs.checkpoint ? fmt::format("that of iteration {}",
                                                                       inputs.checkpoint->step)
                                                         : std::string("none")}});
  OMNI_CHECK(same);
  log::tell_warnings_unless_in(ranks::gather(log::warnings_so_far()).front());
  log::info("links between ranks: {} at worst",
            ranks::describe(ranks::slowest(ranks::measure_links())));
  if (const Slices& slices = inputs.groups->net().slices(); slices.ranks > 1)
    log::info("{} ranks share a mini-batch: {} of {} images on each", slices.ranks, slices.images(),
              slices.images_of_all());
  return {};
}

Status compare_parameters(Net& net, std::string_view option) {
  if (!ranks::several()) return {};
  Checksum all;
  for (const Param* param : net.params())
    all.update(std::as_bytes(HostAccess(*param->master, HostAccess::Mode::read).f32()));
  return require_same({{fmt::format("the checksum of {}", option), checksum_text(all.value())}});
}

}  // namespace omni
