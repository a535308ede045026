// A JobTemplate is the template of a job script, with places to fill in: apps/slurm/*.sbatch, or a
// user's own file.
#pragma once

#include <filesystem>
#include <string>
#include <vector>

#include "apps/omni-run/ensemble/sweep/sweep_spec.hpp"
#include "apps/omni-run/slurm/sbatch_options.hpp"
#include "runtime/result.hpp"

namespace omni {

struct JobTemplate {
  std::filesystem::path path;
  std::vector<std::string> lines{};
  SbatchOptions options{};              // of its #SBATCH lines
  std::vector<std::string> training{};  // options that the template gives each training
  bool several_ranks = false;           // true: a training uses all nodes
  bool requeues = false;                // true: the job is requeued after a stop
  bool takes_words = false;             // true: has a place for words of the command line
  bool takes_traces = false;            // true: each training traces to a folder in $OMNI_TRACES
  bool takes_components = false;        // true: its ranks are those of all components of the job
  std::string name() const { return path.stem(); }
  bool gives(const std::string& option) const;  // true: gives the option to each training
};

// Reads a template by its name or path, as find_shipped() does.
Result<JobTemplate> read_template(const std::string& name);

// A FilledJob is what a script has instead of the template's options and words.
struct FilledJob {
  SbatchOptions options;                    // of the first component
  std::vector<SbatchOptions> components{};  // further ones of a heterogeneous job
  std::vector<std::string> words;           // of each training
  std::string folder;                       // where the job starts, unless an option says otherwise
  std::string traces{};                 // the folder with the traces of several trainings; "": none
  std::vector<SweepMember> settings{};  // by the number of an array's task; empty: no sweep
};
std::string fill_in(const JobTemplate& form, FilledJob job);

}  // namespace omni
