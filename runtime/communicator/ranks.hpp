// The ranks of a training: the processes that train one net together. A thread of its own makes all
// calls of MPI, tests the messages that are under way, and sleeps in between, so that who waits for
// another rank uses hardly any of a core. Without a launcher there is one rank and no thread.
//
// Every rank calls the collective functions in the same order. They do not fail: a rank that stays
// silent longer than the patience ends the job.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <span>
#include <string>
#include <vector>

#include "runtime/result.hpp"

namespace omni::ranks {

// Joins the other ranks, if a launcher started several. `exit_code` is that of an error.
Status start(int (*exit_code)(ErrorKind));
int rank();  // of this process
int size();
inline bool several() { return size() > 1; }
inline bool first() { return rank() == 0; }  // which talks to the user, and writes files
std::string name(int rank);                  // "rank 1 on node7"

void set_patience(double seconds);
void note_iteration(std::uint64_t iteration);  // the last that was done, for messages

// ---- messages, from any thread ----
struct Message {
  void* data;
  std::size_t bytes;
  int peer, tag;
  bool sends;  // else it receives
};
// Tags of tensors; lower ones are the communicator's own.
inline constexpr int kFirstTag = 16, kMostTags = (1 << 20) - kFirstTag;
// `done` is called in the communicator's thread, when all of them are done. It must not wait.
void post(std::vector<Message> messages, std::function<void()> done);

// Called again and again in the communicator's thread: whether no message has come for some time,
// though some are awaited. With false a last time when another function, or none, takes its place.
void watch_silence(std::function<void(bool silence)> watch);

// ---- collective, from the main thread ----
std::vector<std::string> gather(const std::string& text);  // of every rank, to every rank
void sum(std::span<double> values);                        // in the order of the ranks
bool any(bool value);
double least(double value);

// Of several ranks on one host, each gets its share of the cores that all of them may use: so many.
// Where StarPU's workers are not to be bound, it is not bound to it.
int share_cores();
std::vector<int> share_of_cores(const std::vector<int>& cores, int place, int sharers);

// Ends this process together with the others, with this code; log::last_error() says why. The first
// rank prints what others say and it does not. Where others do not come, they are ended, too.
[[noreturn]] void leave(int code);
// For an error of this rank alone, in the middle of a training: tasks that wait for other ranks
// would never end. Does nothing where there is one rank.
void leave_for(const Error& error);

}  // namespace omni::ranks
