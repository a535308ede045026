// The ranks of a training: the processes that train one net together, and the messages between
// them. The thread that posts a message starts it. Another thread tests messages that are under
// way, and sleeps in between, so a rank that waits uses little of a core. Without a launcher there
// is one rank and no such thread.
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

// A Launch is the launcher (mpiexec, srun) that started this process, if any. It is read from the
// environment alone, before MPI is loaded.
struct Launch {
  bool by_mpi = false;    // the environment has MPI's start-up information
  int tasks = 1;          // number of processes; 0: the launcher does not say
  bool by_hydra = false;  // the launcher is MPICH's mpiexec
};

using Environment = std::function<const char*(const char*)>;

// Refuses several processes without MPI's start-up information, since each would train alone.
Result<Launch> read_launch(const Environment& environment);

// Joins the other ranks, if a launcher started several. `exit_code` maps errors to exit codes.
Status start(int (*exit_code)(ErrorKind));
int rank();  // of this process, from 0
int size();  // number of ranks
inline bool several() { return size() > 1; }
inline bool first() { return rank() == 0; }  // the first rank prints, and writes files
std::string name(int rank);                  // "rank 1 on node7"

void set_patience(double seconds);
void note_iteration(std::uint64_t iteration);  // the last one done, for error messages

// The following functions send and receive messages, from any thread.
struct Message {
  void* data;
  std::size_t bytes;
  int peer, tag;
  bool sends;  // false: receives
};
// Tensors use tags from this one on. The communicator uses lower ones itself.
inline constexpr int kFirstTag = 16;
inline constexpr int kEventTag = kFirstTag - 1;   // of the messages of RankEvents
inline constexpr int kLetterTag = kFirstTag - 2;  // of Letters
// When all messages are done, `done` is called in the communicator's thread. It must not wait.
void post(std::vector<Message> messages, std::function<void()> done);

// `watch` is called repeatedly in the communicator's thread. `silence` is true if messages are
// awaited and none has come for some time. Before `watch` is replaced or removed it is called with
// false.
void watch_silence(std::function<void(bool silence)> watch);

// StarPU's workers poll for tasks without a pause. While this object lives and another rank has
// been silent for some time, they sleep until a message arrives or a task is ready.
class IdleWorkers {
 public:
  IdleWorkers();  // needs a running Session
  ~IdleWorkers() { watch_silence({}); }
  IdleWorkers(const IdleWorkers&) = delete;
  IdleWorkers& operator=(const IdleWorkers&) = delete;
};

// The following functions are collective, and called from the main thread.
std::vector<std::string> gather(const std::string& text);  // returns all ranks' texts, by rank
void sum(std::span<double> values);                        // adds in the order of the ranks
bool any(bool value);
double least(double value);
// Values are sent from the rank `from`, which calls bring(), to the first rank. The first rank
// calls fetch(), which passes them to `use` piece by piece.
void bring(std::span<float> values);
void fetch(int from, std::size_t count, const std::function<void(std::span<const float>)>& use);

// If several ranks run on this host, binds this rank to its share of the cores, unless StarPU's
// workers are not to be bound. Returns the number of cores in the share.
int share_cores();
std::vector<int> share_of_cores(const std::vector<int>& cores, int place, int sharers);

// After this call the first rank continues as if it were the only rank. All other ranks wait, and
// end when it ends.
void disband();

// While an Apart exists, rank() is 0 and size() is 1, so that each rank trains by itself. Messages
// still use the ranks' numbers in the job, which Place has.
class Apart {
 public:
  Apart();
  ~Apart();
  Apart(const Apart&) = delete;
  Apart& operator=(const Apart&) = delete;
};
struct Place {
  int rank = 0, size = 1;
};
Place place_in_job();

// Lets this process act as the first of `ranks` ranks that all send what it sends, for checks
// before any rank is started. With 1 it stops acting so. Refuses several ranks if there is no MPI.
Status suppose(int ranks);

// Ends all ranks with this code; log::last_error() has the reason. The first rank also prints
// errors that only other ranks have. Ranks that do not respond are aborted.
[[noreturn]] void leave(int code);
// Ends all ranks because of an error that only this rank has: its tasks would wait for other ranks
// for ever. Does nothing if there is one rank.
void leave_for(const Error& error);
[[noreturn]] void end_job(const Error& error);  // the same, also for one rank

// The following functions return the measured cost of messages between neighbouring ranks.

struct Link {
  double seconds = 0, bytes_per_second = 0;  // latency and rate in one direction
  // A core needs `work_per_message` seconds to send and receive one message, and `work_per_byte`
  // seconds for each byte of it.
  double work_per_message = 0, work_per_byte = 0;
};

// Returns for each rank the link from the rank before it; nothing if there is one rank. All ranks
// send and receive at the same time, as in a training. Collective; takes a few seconds at most.
std::vector<Link> measure_links();
Link slowest(const std::vector<Link>& links);  // with the longest latency and the lowest rate
std::string describe(const Link& link);

}  // namespace omni::ranks
