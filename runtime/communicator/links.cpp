#include "runtime/communicator/links.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <chrono>
#include <cmath>
#include <future>
#include <memory>

#include "runtime/communicator/ranks.hpp"

namespace omni::ranks {
namespace {

constexpr int kLinkTag = 5;
// Messages for the rate grow until one takes so long. Less may be in a switch's buffers.
constexpr std::size_t kLeastBytes = 1 << 16, kMostBytes = 1 << 24;
constexpr double kLong = 0.1;  // seconds

class LinkTest {
 public:
  // Of one message of so many bytes: the fastest of some series, as other programs slow series
  // down.
  double seconds(std::size_t bytes, int messages, int series) {
    double least = INFINITY;
    for (int i = 0; i < series; ++i) {
      const auto begun = std::chrono::steady_clock::now();
      for (int message = 0; message < messages; ++message) pass_on(bytes);
      const std::chrono::duration<double> taken = std::chrono::steady_clock::now() - begun;
      least = std::min(least, taken.count() / messages);
    }
    return least;
  }

 private:
  void pass_on(std::size_t bytes) {
    const auto done = std::make_shared<std::promise<void>>();
    post({{out_.data(), bytes, (rank() + 1) % size(), kLinkTag, true},
          {in_.data(), bytes, (rank() + size() - 1) % size(), kLinkTag, false}},
         [done] { done->set_value(); });
    done->get_future().wait();
  }

  std::vector<char> out_ = std::vector<char>(kMostBytes), in_ = out_;
};

}  // namespace

std::vector<Link> measure_links() {
  if (!several()) return {};
  LinkTest test;
  test.seconds(1, 5, 1);  // connects
  const double latency = test.seconds(1, 20, 3);
  std::size_t bytes = kLeastBytes;
  while (-least(-test.seconds(bytes, 1, 3)) < kLong && bytes < kMostBytes) bytes *= 4;
  const double taken = std::max(test.seconds(bytes, 2, 2) - latency, 1e-9);
  std::vector<double> all(2 * size());
  const std::size_t own = 2 * rank();
  all[own] = latency;
  all[own + 1] = static_cast<double>(bytes) / taken;
  sum(all);
  std::vector<Link> links;
  for (std::size_t i = 0; i < all.size(); i += 2) links.push_back({all[i], all[i + 1]});
  return links;
}

Link slowest(const std::vector<Link>& links) {
  return {std::ranges::max(links, {}, &Link::seconds).seconds,
          std::ranges::min(links, {}, &Link::bytes_per_second).bytes_per_second};
}

std::string describe(const Link& link) {
  return fmt::format("{:.0f} us, {:.1f} Mbit/s", 1e6 * link.seconds, 8e-6 * link.bytes_per_second);
}

}  // namespace omni::ranks
