// This file measures links between neighbouring ranks.
#include <fmt/format.h>

#include <algorithm>
#include <chrono>
#include <cmath>
#include <ctime>
#include <future>
#include <memory>

#include "runtime/communicator/ranks.hpp"
#include "runtime/communicator/repeated_medians.hpp"

namespace omni::ranks {
namespace {

constexpr int kLinkTag = 5;
// To measure the rate, messages grow until one takes kLong seconds or has kMostBytes. Smaller ones
// may fit a switch's buffers.
constexpr std::size_t kLeastBytes = 1 << 16, kMostBytes = 1 << 24;
constexpr double kLong = 0.1;         // seconds
constexpr int kRound = 3;             // series
constexpr double kMostSeconds = 0.2;  // at each size, but at least for enough medians

class LinkTest {
 public:
  struct Cost {
    double seconds = 0, work = 0;  // s and CPU s of this process, per message
    double spread = 1;
  };
  // Returns the cost of a message in a series of messages.
  Cost cost(std::size_t bytes, int messages) {
    const auto begun = std::chrono::steady_clock::now();
    const double worked = work();
    for (int message = 0; message < messages; ++message) pass_on(bytes);
    const std::chrono::duration<double> taken = std::chrono::steady_clock::now() - begun;
    return {taken.count() / messages, (work() - worked) / messages};
  }
  // Measures until repeated medians agree on every rank, or for kMostSeconds. If they do not agree,
  // other programs have slowed down some.
  Cost settled_cost(std::size_t bytes, int messages) {
    const auto begun = std::chrono::steady_clock::now();
    RepeatedMedians seconds, work;
    while (true) {
      std::vector<double> of_series, work_of_series;
      for (int i = 0; i < kRound; ++i) {
        const Cost one = cost(bytes, messages);
        of_series.push_back(one.seconds);
        work_of_series.push_back(one.work);
      }
      seconds.add(std::move(of_series));
      work.add(std::move(work_of_series));
      const std::chrono::duration<double> taken = std::chrono::steady_clock::now() - begun;
      const bool late = any(taken.count() > kMostSeconds && seconds.are_enough());
      if (least(seconds.agree() ? 1 : 0) == 1 || late)
        return {seconds.value(), work.value(), seconds.spread()};
    }
  }

 private:
  // Returns the CPU time of all threads of this process, in seconds.
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
  test.cost(1, 5);  // opens the connection
  const LinkTest::Cost small = test.settled_cost(1, 20);
  std::size_t bytes = kLeastBytes;
  const auto takes_long = [&] {
    double fastest = INFINITY;  // one pause of a rank would end the loop too early
    for (int i = 0; i < 3; ++i) fastest = std::min(fastest, test.cost(bytes, 2).seconds);
    return -least(-fastest) >= kLong;
  };
  while (bytes < kMostBytes && !takes_long()) bytes *= 4;
  const LinkTest::Cost large = test.settled_cost(bytes, 1);
  const auto count = static_cast<double>(bytes);
  constexpr int kMembers = 5;
  std::vector<double> all(kMembers * size());
  const auto own = all.begin() + kMembers * rank();
  own[0] = small.seconds;
  // If a small message took as long as a large one, something else slowed it down.
  own[1] = count / (large.seconds > small.seconds ? large.seconds - small.seconds : large.seconds);
  own[2] = small.work;
  own[3] = std::max(large.work - small.work, 0.0) / count;
  own[4] = std::max(small.spread, large.spread);
  sum(all);
  std::vector<Link> links;
  for (auto each = all.begin(); each != all.end(); each += kMembers)
    links.push_back({each[0], each[1], each[2], each[3], each[4]});
  return links;
}

Link slowest(const std::vector<Link>& links) {
  const auto most = [&](double Link::*what) { return std::ranges::max(links, {}, what).*what; };
  return {most(&Link::seconds),
          std::ranges::min(links, {}, &Link::bytes_per_second).bytes_per_second,
          most(&Link::work_per_message), most(&Link::work_per_byte), most(&Link::spread)};
}

std::string describe(const Link& link) {
  const std::string unsteady = link.spread < RepeatedMedians::kAgree
                                   ? ""
                                   : fmt::format(", measurements differ {:.1f} times", link.spread);
  return fmt::format("{:.0f} us, {:.1f} Mbit/s{}", 1e6 * link.seconds, 8e-6 * link.bytes_per_second,
                     unsteady);
}

}  // namespace omni::ranks
