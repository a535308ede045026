// SharedTrainings is what several trainings in one process share: StarPU's session, opened data
// sets, streams of samples, and main memory.
#pragma once

#include <cstddef>
#include <functional>
#include <list>
#include <memory>
#include <string>
#include <vector>

#include "apps/omni-run/arguments.hpp"
#include "apps/omni-run/progress.hpp"
#include "layers/net.hpp"
#include "runtime/data/dataset.hpp"
#include "runtime/data/feed/shared_stream.hpp"
#include "runtime/tasks/session.hpp"

namespace omni {

class SharedTrainings {
 public:
  // `window` is the size of a stream's window in bytes; 0: each training prepares its own samples.
  SharedTrainings(const Session& its_session, std::size_t window)
      : session(its_session), window_(window) {}

  // Returns data that another training has opened for the same arguments, input and outputs; else
  // opens them.
  Result<std::shared_ptr<DatasetPair>> open(const DataArguments& arguments, const Net& net,
                                            const AugmentOptions& augment,
                                            const std::function<Result<DatasetPair>()>& open_now);
  // Returns the stream of these samples; null: each training prepares them itself. That is so
  // without a window, and for test samples that do not all fit into one.
  SharedStream* stream(const Dataset* data, const SampleOptions& options);
  // Forgets the streams and the memory of trainings that have been destroyed. Data stay open.
  void forget_trainings();
  void say_samples() const;  // prints how many each stream has prepared
  std::size_t window() const { return window_; }
  // Returns the text of all arguments by which a training set was opened, with whole paths.
  std::string source_of(const Dataset& data) const;
  // Warns of each data set with damaged images. All ranks call this function. Ranks that share
  // samples have found the same images, which are named once.
  void say_damaged() const;
  // Returns true once for each test set: its images must be checked.
  bool takes_check_of(const DatasetPair& data);

  const Session& session;
  CommonLine progress{};
  std::size_t planned_bytes = 0;  // main memory of the trainings so far

 private:
  struct Opened {
    DataArguments arguments;
    Extent input;
    std::vector<LabelLimit> losses;  // of the net
    bool flat = false;
    InputParts parts;
    std::shared_ptr<DatasetPair> data;
    bool checked = false;
  };
  std::size_t window_;
  std::vector<Opened> opened_;
  std::list<SharedStream> streams_;  // after opened_, whose data they read
};

}  // namespace omni
