// A machine file: how long the devices of a machine take for a mini-batch. From it the virtual
// clock computes which group finishes when. docs/user/virtual-clock.md describes the format.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "runtime/result.hpp"

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
    double overhead = 0;                        // s of each mini-batch
    double flops_per_second = 0;
    double half_size = 0;  // images at which half of that rate is reached
    Law law = Law::constant;
    double sigma = 0;   // of the lognormal law
    double memory = 0;  // bytes; 0: not said
    std::optional<Roofline> roofline{};
  };
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
};

// Errors name `where` and the line.
Result<Machine> parse_machine(std::string_view text, const std::string& where);
Result<Machine> read_machine_file(const std::filesystem::path& path);

// The device of every group: the first ones, one each. More groups than devices share them evenly,
// in order.
std::vector<std::size_t> devices_of_groups(const Machine& machine, int groups);

// Several devices combined into one, for a group that uses all of them. They divide a mini-batch so
// that all take the same time. That time varies by the law of the first device.
Machine united(const Machine& machine, std::uint64_t batch, double flops_per_sample);
// Combines the devices, in order, into one device per group; unchanged with no more devices than
// groups.
Machine grouped(const Machine& machine, int groups, std::uint64_t batch, double flops_per_sample);
// Mean seconds from one update to the next, where such groups send and get for `message` seconds
// each time.
double seconds_per_update(const Machine& machine, int groups, std::uint64_t batch,
                          double flops_per_sample, double message);

}  // namespace omni
