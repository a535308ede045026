// This library implements the transport over MPI. MPI_Finalize is never called: over TCP it hangs
// in UCX 1.13 (openucx/ucx#8738). Processes leave together instead (see ranks::leave).
#include <mpi.h>

#include <cstdio>
#include <cstdlib>
#include <filesystem>
#include <string_view>
#include <vector>

#include "runtime/communicator/transport.hpp"

namespace omni {
namespace {

// Returns whether hydra or Slurm started all ranks on one host.
bool on_one_host() {
  const auto value = [](const char* name) {
    const char* text = std::getenv(name);
    return std::string_view(text != nullptr ? text : "");
  };
  return value("SLURM_STEP_NUM_NODES") == "1" ||
         (!value("PMI_SIZE").empty() && value("PMI_SIZE") == value("MPI_LOCALNRANKS"));
}

// Turns off UCX's rendezvous where ranks are linked by TCP, unless the user has set
// UCX_RNDV_THRESH. With rendezvous UCX asks the receiver before it sends many bytes, and waits for
// the answer. A rank that computes answers late: two ranks with a link of 1 Gbit/s took 1.7 to 1.9
// times as long. With shared memory, or adapters for RDMA, UCX keeps its own choice.
void send_without_asking() {
  std::error_code none;
  const bool adapters = !std::filesystem::is_empty("/sys/class/infiniband", none) && !none;
  if (!adapters && !on_one_host()) setenv("UCX_RNDV_THRESH", "inf", 0);
}

class MpiTransport final : public Transport {
 public:
  MpiTransport() {
    send_without_asking();
    int level = 0;
    MPI_Init_thread(nullptr, nullptr, MPI_THREAD_SERIALIZED, &level);
    MPI_Comm_rank(MPI_COMM_WORLD, &rank_);
    MPI_Comm_size(MPI_COMM_WORLD, &size_);
    // A message to or from a rank that has ended is never done. The default would abort at once.
    MPI_Comm_set_errhandler(MPI_COMM_WORLD, MPI_ERRORS_RETURN);
  }
  int rank() const override { return rank_; }
  int size() const override { return size_; }
  Ticket send(const void* data, std::size_t bytes, int peer, int tag) override {
    const Ticket ticket = free_ticket();
    return started(ticket, MPI_Isend(data, static_cast<int>(bytes), MPI_BYTE, peer, tag,
                                     MPI_COMM_WORLD, &requests_[ticket]));
  }
  Ticket receive(void* data, std::size_t bytes, int peer, int tag) override {
    const Ticket ticket = free_ticket();
    return started(ticket, MPI_Irecv(data, static_cast<int>(bytes), MPI_BYTE, peer, tag,
                                     MPI_COMM_WORLD, &requests_[ticket]));
  }
  std::span<const Ticket> take_done() override {
    const auto count = static_cast<int>(requests_.size());
    int done = 0;
    places_.resize(requests_.size());
    states_.resize(requests_.size());
    const int result = MPI_Testsome(count, requests_.data(), &done, places_.data(), states_.data());
    done_.clear();
    for (int i = 0; done != MPI_UNDEFINED && i < done; ++i)  // undefined: none is under way
      if (result != MPI_ERR_IN_STATUS || states_[i].MPI_ERROR == MPI_SUCCESS)
        done_.push_back(static_cast<Ticket>(places_[i]));
    free_.insert(free_.end(), done_.begin(), done_.end());
    return done_;
  }
  void abort(int code) override {
    // A keeper ends the other ranks. MPI_Abort would wait there for seconds.
    if (std::getenv(kKept) != nullptr) return;
    // The program has printed the error already, and MPICH would only repeat the code.
    if (std::freopen("/dev/null", "w", stderr) != nullptr) MPI_Abort(MPI_COMM_WORLD, code);
  }

 private:
  Ticket started(Ticket ticket, int result) {
    if (result != MPI_SUCCESS) requests_[ticket] = MPI_REQUEST_NULL;
    return ticket;
  }
  Ticket free_ticket() {
    if (free_.empty()) {
      requests_.push_back(MPI_REQUEST_NULL);
      return requests_.size() - 1;
    }
    const Ticket ticket = free_.back();
    free_.pop_back();
    return ticket;
  }

  int rank_ = 0, size_ = 1;
  std::vector<MPI_Request> requests_;  // by ticket; null: the ticket is free
  std::vector<int> places_;
  std::vector<MPI_Status> states_;
  std::vector<Ticket> free_, done_;
};

}  // namespace
}  // namespace omni

extern "C" omni::Transport* omni_open_transport() {
  static omni::MpiTransport transport;
  return &transport;
}
