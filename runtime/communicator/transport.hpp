// A Transport makes the calls of MPI that the communicator needs. Messages are started and tested,
// never waited for. The implementation is a separate library (library/mpi_transport.cpp), which is
// loaded only if a launcher started several processes.
#pragma once

#include <cstddef>
#include <span>

namespace omni {

class Transport {
 public:
  virtual ~Transport() = default;
  virtual int rank() const = 0;
  virtual int size() const = 0;

  // A Ticket is the number of a message under way, until take_done() returns it. Until then nobody
  // may change the memory of a message to send, or use that of a message to receive. The numbers
  // are small, and used again. Between two ranks, messages of one tag arrive in the order in which
  // they were sent.
  using Ticket = std::size_t;
  static constexpr std::size_t kMostBytes = std::size_t{1} << 30;
  virtual Ticket send(const void* data, std::size_t bytes, int peer, int tag) = 0;
  virtual Ticket receive(void* data, std::size_t bytes, int peer, int tag) = 0;
  // Tests all messages under way at once, and returns those that are done.
  virtual std::span<const Ticket> take_done() = 0;

  virtual void abort(int code) = 0;  // ends all ranks
};

// This variable is in the environment of ranks that have keepers (keeper.hpp).
inline constexpr const char* kKept = "OMNI_KEPT";

// The library has a function of this name and type. Only one thread at a time may call a Transport.
inline constexpr const char* kOpenTransport = "omni_open_transport";
using OpenTransport = Transport* (*)();

}  // namespace omni
