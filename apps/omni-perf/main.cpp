// omni-perf: reads traces and says where the time went.
#include <CLI/CLI.hpp>

int main(int argc, char** argv) {
  CLI::App app("Where did the time go? Reads what omni-run --trace wrote.");
  CLI11_PARSE(app, argc, argv);
  return 0;
}
