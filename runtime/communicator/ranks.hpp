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

// Whether a launcher (mpiexec, srun) started this process, and how many processes it started; from
// the environment alone, before MPI is loaded.
struct Launch {
  bool by_mpi = false;    // MPI's start-up information is there
  int tasks = 1;          // processes of this program; 0: the launcher does not say
  bool by_hydra = false;  // MPICH's mpiexec
};

using Environment = std::function<const char*(const char*)>;

// Refuses several processes without start-up information of MPI: each would train alone.
Result<Launch> read_launch(const Environment& environment);

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

// StarPU's workers poll for tasks without a pause. While this object lives and another rank has
// been silent for some time, they sleep until a message arrives or a task is ready.
class IdleWorkers {
 public:
  IdleWorkers();  // needs a running Session
  ~IdleWorkers() { watch_silence({}); }
  IdleWorkers(const IdleWorkers&) = delete;
  IdleWorkers& operator=(const IdleWorkers&) = delete;
};

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

// For what is checked before any rank is started: this process counts as the first of so many, all
// of which say what it says. 1: no longer. Refuses several where there is no MPI.
Status suppose(int ranks);

// Ends all ranks with this code; log::last_error() says why. The first rank also prints errors that
// only other ranks have. Ranks that do not respond are aborted.
[[noreturn]] void leave(int code);
// For an error of this rank alone, in the middle of a training: tasks that wait for other ranks
// would never end. Does nothing where there is one rank.
void leave_for(const Error& error);

// ---- what messages between neighbouring ranks cost, the communicator's part included: all ranks
// send to the next one and receive from the one before at the same time, as in a training ----

struct Link {
  double seconds = 0, bytes_per_second = 0;  // latency and rate in one direction
  // Seconds that a core works for a message out and one in, and for a byte out and one in.
  double work_per_message = 0, work_per_byte = 0;
};

// Collective, seconds at most. By rank: the link from the rank before it; none with one rank.
std::vector<Link> measure_links();
Link slowest(const std::vector<Link>& links);  // the longest latency, the lowest rate
std::string describe(const Link& link);

}  // namespace omni::ranks
