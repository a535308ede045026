// These tests damage good files of every kind at random. Each is refused or read, and nothing
// aborts. A number determines each mutation. OMNI_MUTATIONS is the number of mutations of each kind
// (2000 by hand). With OMNI_WRITE_SEEDS=FOLDER the undamaged files are written for the fuzzers
// instead.
#include <gtest/gtest.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <cstdlib>

#include "runtime/rng.hpp"
#include "tests/fuzz/fuzz_target.hpp"
#include "tests/fuzz/seeds.hpp"

namespace omni::test {
namespace {

std::uint64_t wanted_mutations() {
  const char* given = std::getenv("OMNI_MUTATIONS");
  return given != nullptr ? std::strtoull(given, nullptr, 10) : 100;
}

// Returns the file with one to four damages.
std::string mutated(std::string file, std::uint64_t number) {
  Draws draws(Philox(32, RandomStream::synthetic), number);
  const auto below = [&](std::size_t end) {
    return static_cast<std::size_t>(
        draws.below(static_cast<std::uint32_t>(std::max<std::size_t>(end, 1))));
  };
  static const std::string words[] = {"-1",
                                      "0",
                                      "4294967296",
                                      "1e308",
                                      "nan",
                                      "\x1b[2J",
                                      "%s%n",
                                      std::string(4, '\xff'),
                                      std::string(8, '\0'),
                                      "\n",
                                      "{",
                                      "]"};
  for (std::size_t left = 1 + below(4); left > 0; --left) {
    const std::size_t at = below(file.size()),
                      length = below(std::min<std::size_t>(file.size() - at, 64));
    switch (below(6)) {
      case 0:
        file.resize(at);
        break;
      case 1:
        file.erase(at, length);
        break;
      case 2:
        file.insert(at, file.substr(below(file.size()), length));
        break;
      case 3:
        file.replace(at, length, words[below(std::size(words))]);
        break;
      case 4:
        file.insert(at, std::string(below(3000), static_cast<char>(below(256))));
        break;
      default:
        if (!file.empty()) file[at] = static_cast<char>(file[at] ^ (1 << below(8)));
    }
  }
  return file;
}

class Mutations : public testing::TestWithParam<std::string> {};

TEST_P(Mutations, AreReadOrRefused) {
  const auto all = seeds(OMNI_SOURCE_DIR "/apps/nets");
  ASSERT_TRUE(all.contains(GetParam())) << "tests/fuzz/seeds.hpp lacks it";
  const std::vector<std::string>& files = all.at(GetParam());
  if (const char* folder = std::getenv("OMNI_WRITE_SEEDS")) {
    const auto corpus = std::filesystem::path(folder) / GetParam();
    std::filesystem::create_directories(corpus);
    for (std::size_t i = 0; i < files.size(); ++i)
      put(corpus / ("seed-" + std::to_string(i)), files[i]);
    return;
  }
  // The files are read in a process of its own, which writes to shared memory how many it has read.
  auto* const done = static_cast<std::uint64_t*>(mmap(
      nullptr, sizeof(std::uint64_t), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0));
  const pid_t child = fork();
  if (child == 0) {
    for (*done = 0; *done < wanted_mutations(); ++*done) {
      const std::string file = mutated(files[*done % files.size()], *done);
      fuzz_targets().at(GetParam())(reinterpret_cast<const std::uint8_t*>(file.data()),
                                    file.size());
    }
    std::exit(0);
  }
  int status = 0;
  ASSERT_EQ(waitpid(child, &status, 0), child);
  EXPECT_EQ(status, 0) << "mutation " << *done;
  EXPECT_EQ(*done, wanted_mutations());
  munmap(done, sizeof *done);
}

std::vector<std::string> kinds() {
  std::vector<std::string> names;
  for (const auto& [name, target] : fuzz_targets()) names.push_back(name);
  return names;
}

INSTANTIATE_TEST_SUITE_P(Files, Mutations, testing::ValuesIn(kinds()),
                         [](const auto& kind) { return kind.param; });

}  // namespace
}  // namespace omni::test
