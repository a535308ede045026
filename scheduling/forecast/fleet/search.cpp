#include "scheduling/forecast/fleet/search.hpp"

#include <cmath>
#include <limits>
#include <numeric>
#include <utility>

#include "runtime/rng.hpp"

namespace omni {
namespace {

// A search takes about this many steps of the inner loop of a knapsack, but makes at least
// kLeastSchedules schedules and at most kMostSchedules.
constexpr double kSearchWork = 1e8;
constexpr double kLeastSchedules = 4, kMostSchedules = 100;
constexpr std::size_t kPaces = 24;    // that are tried for a flotilla at most
constexpr double kSame = 1e-9;        // smaller relative differences of seconds do not count
constexpr double kWorthChange = 1.1;  // factor by which a new flotilla must be worth more
constexpr float kDisturbance = 0.2f;  // standard deviation of logarithms of prices and worths
constexpr double kBracket = 1.02;     // paces within this factor have one bound

// FleetSearch schedules all members on a number of devices, again and again. It forms the flotillas
// that are worth most. A flotilla's worth is its pace times the sum of its members' prices. At
// first a member's price is the least number of device seconds that one of its samples takes.
// Prices rise for members that trained while devices were used badly. So these members train
// earlier, beside other members.
class FleetSearch {
 public:
  FleetSearch(const Fleet& fleet, int devices) : fleet_(fleet), devices_(devices) {
    for (int i = 0; i < std::ssize(fleet.members); ++i) {
      const FleetMember& member = fleet.members[i];
      std::vector<double> rates{0};
      double least = INFINITY;
      for (int m = 1; m <= devices; ++m) {
        rates.push_back(std::min(fleet_rate(member, m), fleet.pipeline));
        least = std::min(least, m / rates[m]);
      }
      for (int m = 1; m <= devices && member.samples > 0; ++m)
        if (rates[m] > rates[m - 1]) rates_in_order_.push_back({rates[m], i});
      rates_.push_back(std::move(rates));
      prices_.push_back(least);
      if (member.samples > 0) all_.push_back(i);
    }
    std::ranges::sort(rates_in_order_);
  }

  FleetPlan run() {
    const int rounds = static_cast<int>(
        std::clamp(kSearchWork / work_of_round(), kLeastSchedules, kMostSchedules));
    const double enough = bounds().back() * (1 + kSame);
    FleetPlan best;
    std::vector<double> prices = prices_, best_prices;
    for (int round = 0; round < rounds; ++round) {
      // Every second round starts from the prices of the best plan, with random changes.
      const bool departs = round % 2 == 1;
      prices_ = departs ? disturbed(best_prices) : prices;
      worth_change_ = round % 4 < 2 ? kWorthChange : 1;
      FleetPlan plan = schedule(departs);
      if (!departs) prices = raised_prices(plan);
      if (round == 0 || is_better(plan, best)) {
        best = std::move(plan);
        best_prices = prices_;
      }
      work_ += work_of_round();
      if (best.seconds() <= enough) break;
    }
    prices_ = best_prices;
    return best;
  }

  double work() const { return work_; }

  // Returns a lower bound of every plan's seconds, by number of devices. It is the price of all
  // samples, divided by the largest worth of a flotilla per second. The bound holds for any prices.
  // If one member alone takes longer, its time is the bound.
  std::vector<double> bounds() {
    running_ = all_;
    std::vector<double> most(devices_ + 1), bounds(devices_ + 1, INFINITY);
    const std::vector<double> paces = all_paces();
    for (auto pace = paces.begin(); pace != paces.end();) {
      fill_knapsacks(*pace);
      pace = std::upper_bound(pace, paces.end(), *pace * kBracket);
      const auto worth = worth_.end() - most.size();
      for (int m = 1; m <= devices_; ++m) most[m] = std::max(most[m], pace[-1] * worth[m]);
    }
    for (int m = 1; m <= devices_; ++m) {
      double worth = 0, longest = 0;
      for (const int i : all_) {
        const double samples = static_cast<double>(fleet_.members[i].samples);
        worth += samples * prices_[i];
        longest = std::max(longest, samples / rates_[i][m]);
      }
      bounds[m] = all_.empty() ? 0 : std::max(worth / most[m], longest);
    }
    return bounds;
  }

 private:
  double work_of_round() const {
    return static_cast<double>(all_.size() * all_.size() * devices_ * kPaces) / 2;
  }

  // A Choice is a flotilla with the rate of its slowest member.
  struct Choice {
    FleetShares shares{};
    double rate = 0, worth = 0;
  };

  FleetPlan schedule(bool departs) {
    FleetPlan plan;
    FleetState state(fleet_);
    Choice now;
    double most = 0;  // worth of the best flotilla when flotillas were compared last
    while (!state.complete()) {
      std::erase_if(now.shares, [&](FleetShare share) { return state.left[share.member] == 0; });
      if (!now.shares.empty()) {  // the members that are left may go on
        for (FleetShare& share : now.shares) share.devices = devices_for(share.member, kLeastRate);
        judge(now, state);
      }
      const double least = now.shares.empty() ? 0 : now.worth * worth_change_;
      if (now.shares.empty() || least < most) {
        choose_running(state, now.shares);
        most = least;
        for (const double pace : some_paces()) {
          Choice other{.shares = most_worth(pace)};
          judge(other, state);
          if (departs) other.worth *= std::exp(kDisturbance * draws_.normal());
          if (other.worth <= most * (1 + kSame)) continue;
          most = other.worth;
          now = std::move(other);
        }
      }
      plan.flotillas.push_back(state.train(now.shares, now.rate));
    }
    return plan;
  }

  // Divides the devices among the members of the choice, and sets its rate and worth.
  void judge(Choice& choice, const FleetState& state) const {
    choice.rate = speed_up(choice.shares);
    choice.worth = std::min(choice.rate, fleet_.pipeline / state.streams(choice.shares)) *
                   worth_of(choice.shares);
  }

  // Fills running_. Members that already train come first: they are preferred among equal worths.
  void choose_running(const FleetState& state, const FleetShares& before) {
    running_.clear();
    for (const FleetShare& share : before)
      if (state.left[share.member] > 0) running_.push_back(share.member);
    const std::vector<int> going_on = running_;
    for (int i = 0; i < std::ssize(state.left); ++i)
      if (state.left[i] > 0 && std::ranges::find(going_on, i) == going_on.end())
        running_.push_back(i);
  }

  // Returns the paces that a flotilla may have, ascending.
  std::vector<double> all_paces() const {
    std::vector<char> runs(prices_.size());
    for (const int i : running_) runs[i] = 1;
    std::vector<double> all;
    for (const auto& [rate, member] : rates_in_order_)
      if (runs[member] != 0 && (all.empty() || rate > all.back())) all.push_back(rate);
    return all;
  }

  std::vector<double> some_paces() const {
    const std::vector<double> all = all_paces();
    if (all.size() <= kPaces) return all;
    std::vector<double> some;
    for (std::size_t k = 0; k < kPaces; ++k)
      some.push_back(all[k * (all.size() - 1) / (kPaces - 1)]);
    return some;
  }

  // Returns the fewest devices with which a member reaches the pace. If no number suffices, returns
  // the number of all devices plus 1.
  int devices_for(int member, double pace) const {
    const std::vector<double>& rates = rates_[member];
    return static_cast<int>(std::ranges::lower_bound(rates, pace) - rates.begin());
  }

  double worth_of(const FleetShares& shares) const {
    return std::accumulate(shares.begin(), shares.end(), 0.0, [&](double sum, FleetShare share) {
      return sum + prices_[share.member];
    });
  }

  // Finds the largest sum of prices of members that reach the pace together. Row k of `worth_` has
  // this sum for the first k members, by number of devices.
  void fill_knapsacks(double pace) {
    const std::size_t row = devices_ + 1;
    worth_.assign((running_.size() + 1) * row, 0);
    for (std::size_t k = 0; k < running_.size(); ++k) {
      const double price = prices_[running_[k]];
      const std::size_t needs = devices_for(running_[k], pace);
      const double* const without = &worth_[k * row];
      double* const with = &worth_[(k + 1) * row];
      std::copy(without, without + std::min(needs, row), with);
      for (std::size_t room = needs; room < row; ++room)
        with[room] = std::max(without[room], without[room - needs] + price);
    }
  }

  FleetShares most_worth(double pace) {
    fill_knapsacks(pace);
    const std::size_t row = devices_ + 1;
    FleetShares shares;
    std::size_t room = devices_;
    for (std::size_t k = running_.size(); k-- > 0;)
      if (worth_[(k + 1) * row + room] > worth_[k * row + room]) {
        shares.push_back({running_[k], devices_for(running_[k], pace)});
        room -= shares.back().devices;
      }
    std::ranges::reverse(shares);
    return shares;
  }

  // Gives idle devices to the slowest member as long as that helps. Returns the rate of the slowest
  // member.
  double speed_up(FleetShares& shares) const {
    int idle = devices_;
    for (const FleetShare& share : shares) idle -= share.devices;
    double rate = 0;
    while (true) {
      const auto slowest = std::ranges::min_element(
          shares, {}, [&](FleetShare share) { return rates_[share.member][share.devices]; });
      const std::vector<double>& rates = rates_[slowest->member];
      rate = rates[slowest->devices];
      const int devices = static_cast<int>(std::ranges::upper_bound(rates, rate) - rates.begin());
      if (devices > devices_ || devices - slowest->devices > idle) break;
      idle -= devices - slowest->devices;
      slowest->devices = devices;
    }
    for (FleetShare& share : shares) share.devices = devices_for(share.member, rate);
    return rate;
  }

  // Returns higher prices for members that train in seconds of little worth. A price is multiplied
  // by sqrt(a / b). Here a is the mean worth of a second of the plan, and b that of the seconds in
  // which this member trains.
  std::vector<double> raised_prices(const FleetPlan& plan) const {
    std::vector<double> worth(prices_.size()), seconds(prices_.size()), raised = prices_;
    double all = 0;
    for (const Flotilla& flotilla : plan.flotillas) {
      const double gained = worth_of(flotilla.shares) * static_cast<double>(flotilla.samples);
      all += gained;
      for (const FleetShare& share : flotilla.shares) {
        worth[share.member] += gained;
        seconds[share.member] += flotilla.seconds;
      }
    }
    for (const int i : all_) raised[i] *= std::sqrt(all / plan.seconds() * seconds[i] / worth[i]);
    return raised;
  }

  std::vector<double> disturbed(std::vector<double> prices) {
    for (double& price : prices) price *= std::exp(kDisturbance * draws_.normal());
    return prices;
  }

  static constexpr double kLeastRate = std::numeric_limits<double>::min();

  const Fleet& fleet_;
  const int devices_;
  double worth_change_ = kWorthChange, work_ = 0;
  Draws draws_{Philox(0, RandomStream::ensemble), 0};
  std::vector<int> all_;                                // members that have samples to train
  std::vector<std::vector<double>> rates_;              // by member and devices
  std::vector<std::pair<double, int>> rates_in_order_;  // with the member
  std::vector<double> prices_;                          // of a sample, by member
  // These variables belong to the flotilla that is being formed: the members that may train, and
  // their knapsacks.
  std::vector<int> running_;
  std::vector<double> worth_;
};

}  // namespace

bool is_better(const FleetPlan& plan, const FleetPlan& than) {
  const double seconds = plan.seconds(), others = than.seconds();
  if (std::abs(seconds - others) > kSame * others) return seconds < others;
  return plan.prepared() < than.prepared();
}

FoundPlan search_fleet(const Fleet& fleet, int devices) {
  FleetSearch search(fleet, devices);
  FleetPlan plan = search.run();
  return {std::move(plan), search.bounds(), search.work()};
}

}  // namespace omni
