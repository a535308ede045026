// make_trace DIR [KEY=NUMBER]... writes a synthetic trace for tests that are not in C++.
#include <cstdio>
#include <string>

#include "tests/support/synthetic_trace.hpp"

int main(int argc, char** argv) {
  omni::test::SyntheticTrace options;
  if (argc < 2) return std::fputs("make_trace DIR [KEY=NUMBER]...\n", stderr), 2;
  for (int i = 2; i < argc; ++i) {
    const std::string word = argv[i];
    const std::string key = word.substr(0, word.find('='));
    const std::string text = word.substr(std::min(word.size(), key.size() + 1));
    if (key == "bad_name") {
      options.bad_name = text;
      continue;
    }
    const int number = std::stoi(text);
    if (key == "tasks")
      options.tasks = static_cast<std::uint64_t>(number);
    else if (key == "ranks")
      options.ranks = number;
    else if (key == "workers")
      options.workers = number;
    else if (key == "groups")
      options.groups = number;
    else if (key == "slices")
      options.slices = number;
    else if (key == "layers")
      options.layers = number;
    else if (key == "transfers")
      options.transfers = number != 0;
    else if (key == "peaks")
      options.peaks = number != 0;
    else
      return std::fprintf(stderr, "make_trace: what is %s?\n", key.c_str()), 2;
  }
  omni::test::write_synthetic_trace(argv[1], options);
  return 0;
}
