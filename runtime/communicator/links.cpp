#include "runtime/communicator/links.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <chrono>
#include <cmath>
#include <ctime>
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
  struct Cost {
    double seconds = INFINITY, work = INFINITY;  // s, and s of a core here
  };
  // Of one message of so many bytes: the least of some series, as other programs slow series down.
  Cost cost(std::size_t bytes, int messages, int series) {
    Cost least;
    for (int i = 0; i < series; ++i) {
      const auto begun = std::chrono::steady_clock::now();
      const double worked = work();
      for (int message = 0; message < messages; ++message) pass_on(bytes);
      const std::chrono::duration<double> taken = std::chrono::steady_clock::now() - begun;
      least = {std::min(least.seconds, taken.count() / messages),
               std::min(least.work, (work() - worked) / messages)};
    }
    return least;
  }

 private:
  // Of all threads of this process.
  static double work() { return static_cast<double>(std::clock()) / CLOCKS_PER_SEC; }

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
  test.cost(1, 5, 1);  // connects
  const LinkTest::Cost small = test.cost(1, 20, 3);
  std::size_t bytes = kLeastBytes;
  while (-least(-test.cost(bytes, 1, 3).seconds) < kLong && bytes < kMostBytes) bytes *= 4;
  const LinkTest::Cost large = test.cost(bytes, 2, 2);
  const auto count = static_cast<double>(bytes);
  std::vector<double> all(4 * size());
  const auto own = all.begin() + 4 * rank();
  own[0] = small.seconds;
  own[1] = count / std::max(large.seconds - small.seconds, 1e-9);
  own[2] = small.work;
  own[3] = std::max(large.work - small.work, 0.0) / count;
  sum(all);
  std::vector<Link> links;
  for (auto each = all.begin(); each != all.end(); each += 4)
    links.push_back({each[0], each[1], each[2], each[3]});
  return links;
}

Link slowest(const std::vector<Link>& links) {
  const auto most = [&](double Link::*what) { return std::ranges::max(links, {}, what).*what; };
  return {most(&Link::seconds),
          std::ranges::min(links, {}, &Link::bytes_per_second).bytes_per_second,
          most(&Link::work_per_message), most(&Link::work_per_byte)};
}

std::string describe(const Link& link) {
  return fmt::format("{:.0f} us, {:.1f} Mbit/s", 1e6 * link.seconds, 8e-6 * link.bytes_per_second);
}

}  // namespace omni::ranks
