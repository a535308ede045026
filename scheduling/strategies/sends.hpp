// These types say what a strategy sends between groups, and when. The cost model uses them.
#pragma once

namespace omni {

// Sends is what a group sends at the end of its mini-batch.
enum class Sends {
  nothing,
  update,        // gradients or changes to the ranks that own them, which send new values
  contribution,  // changes for a meeting; new values come when all groups have contributed
};

// Meetings tell when groups send their models to be averaged.
struct Meetings {
  enum class Kind {
    none,      // there are no meetings: each group sends an update after every mini-batch
    together,  // all groups contribute after `every` mini-batches of each
    at_rest,   // all groups stop and meet after `every` mini-batches of each, on average
  };
  Kind kind = Kind::none;
  int every = 1;  // mini-batches
  bool operator==(const Meetings&) const = default;
};

}  // namespace omni
