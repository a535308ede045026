#include "runtime/communicator/lifelines.hpp"

#include <arpa/inet.h>
#include <netdb.h>
#include <poll.h>
#include <sys/socket.h>
#include <unistd.h>

#include <cerrno>
#include <random>
#include <string>
#include <vector>

#include "runtime/communicator/ranks.hpp"
#include "runtime/own_command.hpp"
#include "runtime/threads.hpp"

namespace omni::ranks {
namespace {

// Both ends of a lifeline (see hold_lifelines()) first send a Greeting. Other programs that connect
// do not know the secret.
struct Greeting {
  std::uint64_t secret = 0;
  int rank = 0;
};

void limit_waiting(int line, long seconds) {  // 0: no limit
  const timeval limit{seconds, 0};
  setsockopt(line, SOL_SOCKET, SO_RCVTIMEO, &limit, sizeof limit);
  setsockopt(line, SOL_SOCKET, SO_SNDTIMEO, &limit,
             sizeof limit);  // it is the timeout of connect(), too
}

bool says(int line, const Greeting& own) {
  return send(line, &own, sizeof own, MSG_NOSIGNAL) == sizeof own;
}
Greeting heard(int line) {
  Greeting all;
  return recv(line, &all, sizeof all, MSG_WAITALL) == sizeof all ? all : Greeting();
}

// On the first rank: accepts the connections of other ranks, and calls gone() when one is closed.
void hold_first(int door, std::uint64_t secret, const std::function<void(int)>& gone) {
  std::vector<pollfd> lines{{door, POLLIN, 0}};
  std::vector<int> ranks{0};
  while (poll(lines.data(), lines.size(), -1) > 0 || errno == EINTR) {
    for (std::size_t i = 1; i < lines.size(); ++i)
      if (lines[i].revents != 0) {
        lines[i].fd = -1;  // poll() skips negative descriptors
        gone(ranks[i]);
      }
    if (lines[0].revents == 0) continue;
    const int line = accept4(door, nullptr, nullptr, SOCK_CLOEXEC);
    limit_waiting(line, 1);
    const Greeting other = heard(line);
    if (other.secret != secret || other.rank <= 0 || other.rank >= place_in_job().size ||
        !says(line, other)) {
      close(line);
      continue;
    }
    lines.push_back({line, POLLIN, 0});
    ranks.push_back(other.rank);
  }
}

// On another rank: connects to the first rank, and calls gone() when the connection is closed.
void hold_other(const std::string& host, const std::string& port, std::uint64_t secret,
                const std::function<void(int)>& gone) {
  addrinfo wanted{}, *found = nullptr;
  wanted.ai_family = AF_INET;
  wanted.ai_socktype = SOCK_STREAM;
  if (getaddrinfo(host.c_str(), port.c_str(), &wanted, &found) != 0) return;
  const int line = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
  limit_waiting(line, 10);
  char nothing = 0;
  const bool held = connect(line, found->ai_addr, found->ai_addrlen) == 0 &&
                    says(line, {secret, place_in_job().rank}) && heard(line).secret == secret;
  limit_waiting(line, 0);
  if (held && recv(line, &nothing, 1, 0) <= 0) gone(0);
}

}  // namespace

void hold_lifelines(const std::function<void(int)>& gone) {
  std::random_device random;
  std::uint64_t secret = (std::uint64_t{random()} << 32 | random()) | 1;
  sockaddr_in place{};
  place.sin_family = AF_INET;
  socklen_t length = sizeof place;
  auto* const address = reinterpret_cast<sockaddr*>(&place);
  const int door = first() ? socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0) : -1;
  const bool open = door >= 0 && bind(door, address, length) == 0 && listen(door, SOMAXCONN) == 0 &&
                    getsockname(door, address, &length) == 0;
  const std::string host = gather(own_host()).front(),
                    port = gather(std::to_string(ntohs(place.sin_port))).front();
  secret = std::stoull(gather(std::to_string(secret)).front());
  if (open) start_thread([=] { hold_first(door, secret, gone); });
  if (!first()) start_thread([=] { hold_other(host, port, secret, gone); });
}

}  // namespace omni::ranks
