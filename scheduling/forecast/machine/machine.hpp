// A Machine describes a machine for the cost model: its devices, how long each takes for a
// mini-batch, and its links.
#pragma once

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "runtime/rng.hpp"

namespace omni {

struct Machine {
  enum class Kind { gpu, cpu, node };
  // A Law is the distribution by which the time of a mini-batch varies around its mean.
  enum class Law { constant, exponential, lognormal };

  // A Roofline has the highest rates of a GPU, from which the times of single tasks are forecast.
  struct Roofline {
    std::array<double, 3> products{};  // flops per second of matrix products, by Precision
    double bytes_per_second = 0, seconds_per_task = 0;
    // Returns the seconds of a task: the longer of the times for its flops and for its memory
    // traffic, plus a fixed cost. `precision` is an index of `products`.
    double seconds_of(double flops, double bytes, std::size_t precision) const {
      return std::max(flops / products[precision], bytes / bytes_per_second) + seconds_per_task;
    }
    bool operator==(const Roofline&) const = default;
  };

  struct Device {
    Kind kind = Kind::cpu;
    std::map<std::uint64_t, double> seconds{};  // by mini-batch size; empty: the rates below
    std::optional<double> merged_share{};       // merged layers' share of the time; none: of flops
    double overhead = 0;                        // s per mini-batch
    double flops_per_second = 0;
    double half_size = 0;  // images of a mini-batch at half of flops_per_second
    Law law = Law::constant;
    double sigma = 0;   // of Law::lognormal: standard deviation of the logarithm
    double memory = 0;  // bytes; 0: not known
    std::optional<Roofline> roofline{};
    // gain[n] is the throughput of n groups that share the device, relative to one group.
    std::map<std::uint64_t, double> gain{};
    bool serves_merged = false;  // true: computes only merged layers, if there are any
    int cores = 1;               // cores of a node

    // Returns a random factor with mean 1, drawn by the device's law from random bits.
    double variation(const Philox::Block& bits) const;
    bool operator==(const Device&) const = default;
  };
  // A Link connects a node or a GPU with the others, and sends in both directions at once. Cores
  // share a memory and need no link.
  struct Link {  // by default sending takes no time
    double seconds = 0, bytes_per_second = 0;
    double work_per_message = 0, work_per_byte = 0;  // see ranks::Link
    double seconds_of(double bytes) const {
      return seconds + (bytes_per_second > 0 ? bytes / bytes_per_second : 0);
    }
  };

  std::string name{};
  std::vector<Device> devices{};  // one for each device, in the order of the file
  Link link{};

  // Returns the mean time in seconds for a mini-batch of at least one sample, which is above 0.
  // `flops_per_sample` includes forward and backward. A table is interpolated linearly. Beyond its
  // ends the outermost slope continues, with two limits. Above the largest size the time does not
  // fall. Below the smallest size it falls at most in proportion to the size. If the table has one
  // size, the time is in proportion to the size.
  double seconds(std::size_t device, std::uint64_t samples, double flops_per_sample) const;
  // Returns the factor by which a group is slower if `groups` groups, itself included, share the
  // device.
  double slowdown(std::size_t device, std::size_t groups) const;
};

}  // namespace omni
