// The ranks of a training: the processes that train one net together. Whoever posts messages starts
// them. A thread tests those under way and sleeps in between, so a rank that waits uses little of a
// core. Without a launcher there is one rank and no such thread.
//
// Every rank calls the collective functions in the same order. They do not fail: if a rank is
// silent for longer than the patience, the job ends.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <span>
#include <string>
#include <vector>

#include "runtime/result.hpp"

namespace omni::ranks {

// Joins the other ranks, if a launcher started several. `exit_code` turns an error into an exit
// code.
Status start(int (*exit_code)(ErrorKind));
int rank();  // of this process
int size();
inline bool several() { return size() > 1; }
inline bool first() { return rank() == 0; }  // it talks to the user, and writes files
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
inline constexpr int kFirstTag = 16;
inline constexpr int kEventTag = kFirstTag - 1;  // of RankEvents
// `done` is called in the communicator's thread, when all of them are done. It must not wait.
void post(std::vector<Message> messages, std::function<void()> done);

// `watch` is called repeatedly in the communicator's thread: true if no message has come for some
// time although some are awaited. Before it is replaced or removed it is called with false.
void watch_silence(std::function<void(bool silence)> watch);

// ---- collective, from the main thread ----
std::vector<std::string> gather(const std::string& text);  // of every rank, to every rank
void sum(std::span<double> values);                        // in the order of the ranks
bool any(bool value);
double least(double value);
// From this rank, which is not the first, to the first, which uses them piece by piece.
void bring(std::span<float> values);
void fetch(int from, std::size_t count, const std::function<void(std::span<const float>)>& use);

// Binds this rank to its share of the cores, if several ranks run on one host, unless StarPU's
// workers are not to be bound. Returns the number of cores in the share.
int share_cores();
std::vector<int> share_of_cores(const std::vector<int>& cores, int place, int sharers);

// The first rank goes on as if it were the only one. The others end when it does.
void disband();

// Ends all ranks with this code; log::last_error() says why. The first rank also prints errors that
// only other ranks have. Ranks that do not respond are aborted.
[[noreturn]] void leave(int code);
// For an error of this rank alone, in the middle of a training: tasks that wait for other ranks
// would never end. Does nothing where there is one rank.
void leave_for(const Error& error);

}  // namespace omni::ranks
