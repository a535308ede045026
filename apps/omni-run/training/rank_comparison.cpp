#include "apps/omni-run/training/rank_comparison.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cstring>
#include <functional>
#include <numeric>

#include "apps/command_line.hpp"
#include "runtime/checksum.hpp"
#include "runtime/communicator/ranks.hpp"
#include "runtime/files.hpp"
#include "runtime/log.hpp"
#include "runtime/own_command.hpp"
#include "runtime/shown_name.hpp"
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

// These numbers of samples, spread over the data, are compared: the sizes of kSizes, and the
// contents of kContents. If those of which sizes are compared have kCheap bytes at most, all their
// contents are compared, too.
constexpr std::size_t kSizes = 1000, kContents = 100;
constexpr std::uint64_t kCheap = 64 << 20;

std::vector<std::size_t> spread(std::size_t size, std::size_t most) {
  const std::size_t count = std::min(size, most);
  std::vector<std::size_t> indices;
  for (std::size_t i = 0; i < count; ++i)
    indices.push_back(static_cast<std::size_t>(std::uint64_t{i} * size / count));
  return indices;
}

// Compares a number of each sample; 0 stands for a sample that a rank cannot read, which is skipped
// there. Returns the numbers of the first rank that can read the sample.
Result<std::vector<std::uint64_t>> compare_samples(
    const Dataset& data, std::string_view what, const std::vector<std::size_t>& indices,
    const std::function<std::uint64_t(std::size_t)>& number_of) {
  std::string own(indices.size() * sizeof(std::uint64_t), '\0');
  std::vector<std::uint64_t> numbers(indices.size());
  for (std::size_t i = 0; i < indices.size(); ++i) numbers[i] = number_of(indices[i]);
  std::memcpy(own.data(), numbers.data(), own.size());
  std::ranges::fill(numbers, 0);
  const std::vector<std::string> all = ranks::gather(own);
  for (int rank = 0; rank < ranks::size(); ++rank)
    for (std::size_t i = 0; i < indices.size(); ++i) {
      std::uint64_t number = 0;
      std::memcpy(&number, all[rank].data() + i * sizeof number, sizeof number);
      if (number != 0 && numbers[i] != 0 && number != numbers[i])
        return Error{ErrorKind::usage, ranks::name(rank),
                     fmt::format("{} has {} there than on a lower rank",
                                 shown_name(data.name_of(indices[i])), what),
                     "all ranks must have the same data"};
      if (numbers[i] == 0) numbers[i] = number;
    }
  return numbers;
}

Status compare_contents(const Dataset& data) {
  const std::vector<std::size_t> sized = spread(data.size(), kSizes);
  OMNI_TRY(const std::vector<std::uint64_t> sizes,
           compare_samples(data, "another size", sized,
                           [&](std::size_t index) { return data.bytes_of(index); }));
  const bool cheap = std::accumulate(sizes.begin(), sizes.end(), std::uint64_t{0}) <= kCheap;
  const auto compared =
      compare_samples(data, "other contents", cheap ? sized : spread(data.size(), kContents),
                      [&](std::size_t index) {
                        const auto checksum = data.content_checksum(index);
                        return checksum ? *checksum : 0;
                      });
  return compared ? Status() : Status(compared.error());
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

Status compare_ranks(const TrainInputs& inputs, bool measures_links) {
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
  OMNI_CHECK(compare_contents(*inputs.data->train));
  if (inputs.data->test) OMNI_CHECK(compare_contents(*inputs.data->test));
  log::tell_warnings_unless_in(ranks::gather(log::warnings_so_far()).front());
  if (measures_links)
    log::info("links between ranks: {} at worst",
              ranks::describe(ranks::slowest(ranks::measure_links())));
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
