// A LineSocket exchanges lines of text with another process, over TCP or within a host.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "runtime/files.hpp"

namespace omni::ranks {

class LineSocket {
 public:
  explicit LineSocket(Descriptor socket) : socket_(std::move(socket)) {}
  int number() const { return socket_; }  // for poll()
  // Reads what has come, without waiting, and returns the lines that are complete.
  std::vector<std::string> lines();
  bool is_open() const { return is_open_; }  // false: the other end is closed or unreachable
  void say(std::string_view line);           // adds the line end
  void close() { is_open_ = false; }

 private:
  Descriptor socket_;
  std::string unread_;
  bool is_open_ = true;
};

// A Door accepts connections on a port that it chooses, on all interfaces of this host.
class Door {
 public:
  Door();
  int number() const { return socket_; }
  int port() const { return port_; }  // 0: no port is free
  // `silence`: after so many seconds without an answer a connection counts as closed.
  LineSocket accept(double silence, std::string& address);

 private:
  Descriptor socket_;
  int port_ = 0;
};

std::vector<std::string> own_addresses();  // of this host; the last one is that of the loopback
// Returns a closed socket if nobody answers there within two seconds.
LineSocket connect_to(const std::string& address, int port, double silence);

}  // namespace omni::ranks
