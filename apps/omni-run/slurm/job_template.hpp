// The script of a job with places to fill in: apps/slurm/*.sbatch, or a user's own file.
#pragma once

#include <filesystem>
#include <string>
#include <vector>

#include "apps/omni-run/slurm/sbatch_options.hpp"
#include "runtime/result.hpp"

namespace omni {

struct JobTemplate {
  std::filesystem::path path;
  std::vector<std::string> lines{};
  SbatchOptions options{};              // of its #SBATCH lines
  std::vector<std::string> training{};  // options that it gives each training itself
  bool several_ranks = false;           // a training is on all nodes
  bool requeues = false;                // its job, or has Slurm do so
  bool takes_words = false;             // of the command line
  std::string name() const { return path.stem(); }
  bool gives(const std::string& option) const;  // to each training
};

// By name, as find_shipped() knows it.
Result<JobTemplate> read_template(const std::string& name);

// With these options in place of the template's, and the words of a training. The job starts in
// `folder`, unless an option says otherwise.
std::string fill_in(const JobTemplate& form, SbatchOptions options,
                    const std::vector<std::string>& words, const std::string& folder);

}  // namespace omni
