// A machine as the cost model sees it: devices, how long each takes for a mini-batch, and links.
#pragma once

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
  // How the time of a mini-batch varies around its mean.
  enum class Law { constant, exponential, lognormal };

  // What a GPU does at best: with it, times of single tasks can be forecast.
  struct Roofline {
    std::array<double, 3> products{};  // flops per second of matrix products, by Precision
    double bytes_per_second = 0, seconds_per_task = 0;
  };

  struct Device {
    Kind kind = Kind::cpu;
    std::map<std::uint64_t, double> seconds{};  // by mini-batch size, for one net; or for any net:
    std::optional<double> merged_share{};       // of these seconds; by default that of flops
    double overhead = 0;                        // s of each mini-batch
    double flops_per_second = 0;
    double half_size = 0;  // images at which half of that rate is reached
    Law law = Law::constant;
    double sigma = 0;   // of the lognormal law
    double memory = 0;  // bytes; 0: not said
    std::optional<Roofline> roofline{};
    // Throughput of several groups on the device, relative to one alone, by their number.
    std::map<std::uint64_t, double> gain{};
    bool serves_merged = false;  // alone, where groups merge layers
    int cores = 1;               // of a node

    // By its law, around 1.
    double variation(const Philox::Block& bits) const;
  };
  // A node and a GPU have a link of their own, with both directions at once. Cores share a memory.
  struct Link {  // without: nothing costs time
    double seconds = 0, bytes_per_second = 0;
    double work_per_message = 0, work_per_byte = 0;  // see ranks::Link
    double seconds_of(double bytes) const {
      return seconds + (bytes_per_second > 0 ? bytes / bytes_per_second : 0);
    }
  };

  std::string name{};
  std::vector<Device> devices{};  // one for each device, in the order of the file
  Link link{};

  // The mean for a mini-batch of one sample or more; above 0. `flops_per_sample`: forward and
  // backward. A table is interpolated linearly. Outside, its outermost slope goes on, but a time
  // never falls faster than in proportion to the size, and never with a larger size.
  double seconds(std::size_t device, std::uint64_t samples, double flops_per_sample) const;
  // How many times as long a group takes that shares the device with so many groups, itself too.
  double slowdown(std::size_t device, std::size_t groups) const;
};

}  // namespace omni
