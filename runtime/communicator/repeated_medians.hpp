// RepeatedMedians says when repeated measurements agree, and what they measure. Each measurement is
// the median of some samples, as other programs slow down some of them.
#pragma once

#include <algorithm>
#include <cstddef>
#include <vector>

namespace omni {

inline double median(std::vector<double> values) {
  std::ranges::nth_element(values, values.begin() + std::ssize(values) / 2);
  return values[values.size() / 2];
}

class RepeatedMedians {
 public:
  static constexpr std::size_t kAgreeing = 3;  // measurements in a row
  static constexpr double kAgree = 1.1;        // the largest divided by the smallest, at most

  void add(std::vector<double> samples) { all_.push_back(median(std::move(samples))); }
  bool agree() const { return all_.size() >= kAgreeing && spread_of(newest()) < kAgree; }
  bool are_enough() const { return all_.size() >= kAgreeing; }
  // Returns the median of the newest measurements if they agree, else the smallest of all.
  double value() const { return agree() ? median(newest()) : std::ranges::min(all_); }
  double spread() const { return spread_of(agree() ? newest() : all_); }  // largest / smallest

 private:
  std::vector<double> newest() const { return {all_.end() - kAgreeing, all_.end()}; }
  static double spread_of(const std::vector<double>& values) {
    const auto [smallest, largest] = std::ranges::minmax(values);
    return largest / std::max(smallest, 1e-9);
  }

  std::vector<double> all_;
};

}  // namespace omni
