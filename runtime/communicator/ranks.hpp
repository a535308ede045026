// This header has the functions of ranks, which are processes that train one net together: messages
// between them, collective operations, and how they end. The thread that posts a message starts it.
// Another thread tests messages that are under way, and sleeps in between, so a rank that waits
// uses little of a core. If only one process was started, there is no such thread.
//
// Every rank calls the collective functions in the same order. They do not fail: if a rank is
// silent for longer than the patience, the job ends. A rank is silent if it does not send its beat.
// It sends one several times in the patience, also while it computes, reads or waits.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <span>
#include <string>
#include <vector>

#include "runtime/result.hpp"

namespace omni::ranks {

// A Launch says how a launcher (mpiexec, srun) started this process, if one did. It is read from
// the environment alone, before MPI is loaded.
struct Launch {
  bool by_mpi = false;    // the environment has MPI's start-up information
  int tasks = 1;          // number of processes; 0: the launcher does not say
  bool by_hydra = false;  // the launcher is MPICH's mpiexec
};

using Environment = std::function<const char*(const char*)>;

// Refuses several processes without MPICH's start-up information, since each would train alone.
Result<Launch> read_launch(const Environment& environment);

// Joins the other ranks, if a launcher started several. `exit_code` maps errors to exit codes.
// `patience` is how long another rank may be silent, in seconds.
Status start(int (*exit_code)(ErrorKind), double patience);
int rank();  // of this process, from 0
int size();  // number of ranks
inline bool several() { return size() > 1; }
inline bool first() { return rank() == 0; }  // the first rank prints, and writes files
std::string name(int rank);                  // "rank 1 on node7"
std::string name_in_job(int rank);           // likewise, by its number in the whole job

void set_patience(double seconds);             // how long another rank may be silent
void note_iteration(std::uint64_t iteration);  // the last one done, for error messages

// post() may be called from any thread.
struct Message {
  void* data;
  std::size_t bytes;
  int peer, tag;
  bool sends;           // false: receives
  bool in_job = false;  // true: `peer` is a number in the job, also while an Apart exists
};
// Messages about tensors have tags from this one on. Lower tags are used by the communicator.
inline constexpr int kFirstTag = 16;
inline constexpr int kEventTag = kFirstTag - 1;   // of the messages of RankEvents
inline constexpr int kLetterTag = kFirstTag - 2;  // of Letters
// When all messages are done, the communicator's thread calls `done`, which must not wait.
void post(std::vector<Message> messages, std::function<void()> done);

// The communicator's thread calls `watch` repeatedly. `silence` is true if messages are under way,
// but none was done for some time. Before a `watch` is replaced or removed, the caller's thread
// calls it with false.
void watch_silence(std::function<void(bool silence)> watch);

// StarPU's workers poll for tasks without a pause. While this object lives, they sleep in times of
// silence (see watch_silence()) without a ready task.
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
// Sends values from the rank `from`, which calls bring(), to the first rank, which calls fetch().
// fetch() passes the values to `use` piece by piece. Other ranks call neither.
void bring(std::span<float> values);
void fetch(int from, std::size_t count, const std::function<void(std::span<const float>)>& use);

// Ranks on one host that may use the same cores share these cores. Binds this rank to its share,
// unless STARPU_WORKERS_NOBIND is set. Returns the number of cores in the share.
int share_cores();
// Returns the share of one of `sharers` ranks, which is number `place` among them. If there are
// more ranks than cores, each rank gets one core.
std::vector<int> share_of_cores(const std::vector<int>& cores, int place, int sharers);

// After this call the first rank goes on as if it were the only rank. On other ranks the call does
// not return; they end when the first rank ends.
void disband();

struct Place {
  int rank = 0, size = 1;
};
Place place_in_job();

// While an Apart exists, its consecutive ranks are all ranks: size() is `count`, and the rank with
// the number `first` in the job is rank() 0. So a training on them does not see the others, which
// may train something else. place_in_job() still returns the number in the job.
class Apart {
 public:
  Apart() : Apart(place_in_job().rank, 1) {}
  Apart(int first, int count);
  ~Apart();
  Apart(const Apart&) = delete;
  Apart& operator=(const Apart&) = delete;
};

// Lets this single process act as the first of `ranks` ranks that all send what it sends, for
// checks before a job. With 1 it stops acting so. Refuses several ranks in a program without MPI.
Status suppose(int ranks);

// Ends this process together with all other ranks: waits until they leave, too. If `code` is not 0,
// ranks that have not left after some seconds are aborted. log::last_error() has the reason. The
// first rank also prints errors that only other ranks have.
[[noreturn]] void leave(int code);
// Ends the job because of an error that only this rank has. Otherwise the ranks would wait for each
// other for ever. Does nothing if there is one rank.
void leave_for(const Error& error);
[[noreturn]] void end_job(const Error& error);  // the same, also for one rank

// The following functions measure the cost of messages between neighbouring ranks.

struct Link {
  double seconds = 0, bytes_per_second = 0;  // latency and rate in one direction
  // A rank's cores work `work_per_message` seconds to send one message and receive another, and
  // `work_per_byte` seconds more for each byte of one message.
  double work_per_message = 0, work_per_byte = 0;
  // The largest of repeated measurements divided by the smallest, of `seconds` or of the rate,
  // whichever is more. It is small if they agree; otherwise the fastest measurement counts.
  double spread = 1;
};

// Returns for each rank the link from the rank before it; nothing if there is one rank. All ranks
// send and receive at the same time, as in a training. It measures until three medians in a row
// agree, or some seconds. Collective.
std::vector<Link> measure_links();
Link slowest(const std::vector<Link>& links);  // each member has the worst value of all links
std::string describe(const Link& link);

}  // namespace omni::ranks
