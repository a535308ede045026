// What strategies send, and when, as the cost model sees it.
#pragma once

namespace omni {

// At the end of a group's mini-batch.
enum class Sends {
  nothing,
  update,        // gradients or changes to their owners, who send new values
  contribution,  // the same for a meeting: values come when all groups have contributed
};

// When groups send their models.
struct Meetings {
  enum class Kind {
    none,      // each group sends updates, every mini-batch
    together,  // all contribute after so many mini-batches of each
    at_rest,   // all stop after so many mini-batches of each, in the mean, and meet
  };
  Kind kind = Kind::none;
  int every = 1;
  bool operator==(const Meetings&) const = default;
};

}  // namespace omni
