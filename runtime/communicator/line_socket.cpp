#include "runtime/communicator/line_socket.hpp"

#include <arpa/inet.h>
#include <ifaddrs.h>
#include <net/if.h>
#include <netinet/tcp.h>
#include <sys/socket.h>

#include <algorithm>
#include <array>
#include <cerrno>

namespace omni::ranks {
namespace {

constexpr std::size_t kMostUnread = 1 << 20;  // bytes of a line; more close the connection

void limit_sending(int socket, long seconds) {
  const timeval limit{seconds, 0};
  setsockopt(socket, SOL_SOCKET, SO_SNDTIMEO, &limit, sizeof limit);  // of connect(), too
}

// Lets the kernel close the connection if the other host does not answer.
void watch(int socket, double silence) {
  const auto set = [socket](int level, int option, int value) {
    setsockopt(socket, level, option, &value, sizeof value);
  };
  const int pause = std::max(1, static_cast<int>(silence / 4));
  set(SOL_SOCKET, SO_KEEPALIVE, 1);
  set(IPPROTO_TCP, TCP_KEEPIDLE, pause);
  set(IPPROTO_TCP, TCP_KEEPINTVL, pause);
  set(IPPROTO_TCP, TCP_KEEPCNT, 3);
  set(IPPROTO_TCP, TCP_USER_TIMEOUT, static_cast<int>(1000 * silence));
  set(IPPROTO_TCP, TCP_NODELAY, 1);
  limit_sending(socket, 2);
}

std::string text_of(const in_addr& address) {
  std::array<char, INET_ADDRSTRLEN> text{};
  return inet_ntop(AF_INET, &address, text.data(), text.size());
}

}  // namespace

std::vector<std::string> LineSocket::lines() {
  std::array<char, 4096> piece;
  while (is_open_) {
    const ssize_t count = recv(socket_, piece.data(), piece.size(), MSG_DONTWAIT);
    if (count < 0 && errno == EINTR) continue;
    if (count < 0 && errno == EAGAIN) break;
    if (count <= 0 || unread_.size() > kMostUnread) is_open_ = false;
    if (count > 0) unread_.append(piece.data(), static_cast<std::size_t>(count));
  }
  std::vector<std::string> complete;
  std::size_t begin = 0;
  for (std::size_t end; (end = unread_.find('\n', begin)) != std::string::npos; begin = end + 1)
    complete.push_back(unread_.substr(begin, end - begin));
  unread_.erase(0, begin);
  return complete;
}

void LineSocket::say(std::string_view line) {
  if (!is_open_) return;
  const std::string text = std::string(line) + '\n';
  if (send(socket_, text.data(), text.size(), MSG_NOSIGNAL) != static_cast<ssize_t>(text.size()))
    is_open_ = false;
}

Door::Door() : socket_(socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0)) {
  sockaddr_in place{};
  place.sin_family = AF_INET;
  socklen_t length = sizeof place;
  auto* const address = reinterpret_cast<sockaddr*>(&place);
  if (bind(socket_, address, length) == 0 && listen(socket_, SOMAXCONN) == 0 &&
      getsockname(socket_, address, &length) == 0)
    port_ = ntohs(place.sin_port);
}

LineSocket Door::accept(double silence, std::string& address) {
  sockaddr_in from{};
  socklen_t length = sizeof from;
  Descriptor line(accept4(socket_, reinterpret_cast<sockaddr*>(&from), &length, SOCK_CLOEXEC));
  watch(line, silence);
  address = text_of(from.sin_addr);
  return LineSocket(std::move(line));
}

std::vector<std::string> own_addresses() {
  std::vector<std::string> all;
  ifaddrs* list = nullptr;
  if (getifaddrs(&list) == 0)
    for (const ifaddrs* each = list; each != nullptr; each = each->ifa_next)
      if (each->ifa_addr != nullptr && each->ifa_addr->sa_family == AF_INET &&
          (each->ifa_flags & IFF_LOOPBACK) == 0 && (each->ifa_flags & IFF_UP) != 0)
        all.push_back(text_of(reinterpret_cast<const sockaddr_in*>(each->ifa_addr)->sin_addr));
  freeifaddrs(list);
  all.emplace_back("127.0.0.1");
  return all;
}

LineSocket connect_to(const std::string& address, int port, double silence) {
  LineSocket line{Descriptor(socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0))};
  watch(line.number(), silence);
  sockaddr_in place{};
  place.sin_family = AF_INET;
  place.sin_port = htons(static_cast<std::uint16_t>(port));
  if (inet_pton(AF_INET, address.c_str(), &place.sin_addr) != 1 ||
      connect(line.number(), reinterpret_cast<sockaddr*>(&place), sizeof place) != 0)
    line.close();
  return line;
}

}  // namespace omni::ranks
