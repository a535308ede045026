// wave_sweep() is the command line of a sweep in waves that tests run in one process or over ranks.
#pragma once

#include <filesystem>
#include <string>
#include <vector>

#include "tests/support/net_text.hpp"
#include "tests/support/omni_run.hpp"

namespace omni::test {

// Writes the net into the folder once, as a sweep that runs may read it. The run folder `out` is in
// the same folder.
inline std::vector<std::string> wave_sweep(const TemporaryDirectory& folder, const char* out,
                                           const char* workers, const char* waves) {
  if (!std::filesystem::exists(folder / "small.cfg"))
    put(folder / "small.cfg",
        net(10, {8, 8, 1}, "learning_rate=0.05\n") + connected(3) + layer("softmax"));
  return {"ensemble",
          "--net",
          folder / "small.cfg",
          "--data",
          "synthetic:300:3",
          "--max-batches",
          "80",
          "--test-every",
          "0",
          "--workers",
          workers,
          "--deterministic",
          "--out",
          folder / out,
          "--json",
          "--sweep",
          "learning_rate=log:1e-7..1",
          "momentum=0,0.5",
          waves};
}

}  // namespace omni::test
