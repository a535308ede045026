// The tasks.rec of starpu_fxt_tool: "Key: value" lines, an empty line after every task.
#pragma once

#include <cstdint>
#include <filesystem>
#include <map>
#include <string>
#include <vector>

#include "runtime/result.hpp"

namespace omni::perf {

struct FxtTask {
  std::string id, name;  // ids hold the rank when there are several
  bool control = false;  // no task but a hint to StarPU
  std::vector<std::string> depends_on;
  std::vector<std::string> handles, modes;  // as many of both; "R", "RW", "RWC", "S" ...
  std::vector<std::uint64_t> sizes;
  double submitted = -1, start = -1, end = -1;  // ms
  double gigaflops = 0;
  std::int64_t worker = -1, node = 0, rank = 0, iteration = -1;
};

struct FxtTasks {
  std::map<std::int64_t, std::vector<FxtTask>> by_rank;  // those that a worker ran
  std::size_t left_out = 0;                              // the others
};

Result<FxtTasks> read_fxt_tasks(const std::filesystem::path& path);

}  // namespace omni::perf
