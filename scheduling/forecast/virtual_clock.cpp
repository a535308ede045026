#include "scheduling/forecast/virtual_clock.hpp"

#include <algorithm>
#include <cassert>
#include <cmath>
#include <span>
#include <utility>

#include "scheduling/forecast/ticks.hpp"

namespace omni {
namespace {

constexpr double kForward = 1.0 / 3;  // forward's share of a mini-batch's computing time

double at_least_a_tick(double seconds) { return std::max(in_ticks(seconds), kTick); }

struct Writer {
  std::vector<double> numbers{};

  void operator()(auto& value) { numbers.push_back(static_cast<double>(value)); }
  void size(const auto& list) { numbers.push_back(static_cast<double>(list.size())); }
};

struct Reader {
  std::span<const double> numbers;
  bool sound = true;

  double take() {
    if (numbers.empty() || !std::isfinite(numbers.front()) || numbers.front() < 0) {
      sound = false;
      return 0;
    }
    const double value = numbers.front();
    numbers = numbers.subspan(1);
    return value;
  }
  template <class Value>
  void operator()(Value& value) {
    constexpr double kMost = std::is_same_v<Value, bool>  ? 1
                             : std::is_same_v<Value, int> ? 1e9
                                                          : 0x1p53;
    const double number = take();
    sound = sound && number <= kMost;
    value = sound ? static_cast<Value>(number) : Value();
  }
  void size(auto& list) {
    const double count = take();
    sound = sound && count <= static_cast<double>(numbers.size());
    list.resize(sound ? static_cast<std::size_t>(count) : 0);
  }
};

}  // namespace

VirtualClock::VirtualClock(Machine machine, GroupDevices placement, const NetCosts& costs,
                           std::uint64_t seed)
    : machine_(std::move(machine)),
      placement_(std::move(placement)),
      costs_(costs),
      demands_(demands_of(costs_, machine_, placement_)),
      random_(seed, RandomStream::arrivals),
      slowdown_(machine_.devices.size(), 1),
      sharers_(demands_.places.count),
      divisions_(placement_.devices.size()),
      devices_(machine_.devices.size()),
      links_(2 * demands_.places.count),
      groups_(placement_.devices.size()),
      draws_(machine_.devices.size()) {
  std::vector<std::size_t> sharing(machine_.devices.size());
  for (const auto& devices : placement_.devices)
    for (const std::size_t device : devices) ++sharing[device];
  for (std::size_t device = 0; device < sharing.size(); ++device)
    slowdown_[device] = machine_.slowdown(device, std::max<std::size_t>(sharing[device], 1));
  for (const Demands::Group& group : demands_.groups)
    for (const std::size_t place : group.places) ++sharers_[place];
  if (demands_.places.count > 1)
    piece_seconds_ = in_ticks(machine_.link.seconds_of(demands_.piece));
}

bool VirtualClock::Group::is_complete(double now) const {
  const bool awaits = stage == Stage::awaits_values;
  const Wait& wait = awaits ? values : stage_wait;
  return stage != Stage::idle && computing.empty() && wait.messages == 0 && wait.until <= now &&
         !(awaits && values_at > 0);
}

double VirtualClock::Group::at() const {
  double first = INFINITY;
  if (!computing.empty())
    first = std::ranges::min_element(computing, {}, &Computing::end)->end;
  else if (is_complete(INFINITY))
    first = stage == Stage::awaits_values ? values.until : stage_wait.until;
  return values_at > 0 ? std::min(first, values_at) : first;
}

double VirtualClock::draw(std::size_t number) {
  const Machine::Device& device = machine_.devices[number];
  if (device.law == Machine::Law::constant) return 1;
  return device.variation(random_(number, draws_[number]++));
}

const Division& VirtualClock::division(int group, std::uint64_t samples) {
  const auto [place, is_new] = divisions_[group].try_emplace(samples);
  if (is_new) place->second = divide(machine_, placement_.devices[group], samples, costs_.flops);
  return place->second;
}

// The following functions simulate what a mini-batch demands of devices and links.

// Sends bytes over the link of a place in one direction: `in` means to the place.
void VirtualClock::send(int number, std::size_t place, bool in, double bytes, bool for_later) {
  if (!has_link(place) || bytes <= 0) return;
  Wait& wait = for_later ? groups_[number].values : groups_[number].stage_wait;
  const Machine::Link& of = machine_.link;
  const double seconds = of.bytes_per_second > 0 ? in_ticks(bytes / of.bytes_per_second) : 0;
  if (seconds == 0) return wait.extend(now_ + in_ticks(of.seconds));
  links_.send(2 * place + (in ? 1 : 0), now_, {seconds, number, for_later});
  ++wait.messages;
}

// Computes forward or backward of a group's mini-batch. Its time includes half of the work for
// messages, and the waits for values of other devices.
void VirtualClock::compute(int number, bool backward) {
  Group& group = groups_[number];
  const Demands::Group& demands = demands_.groups[number];
  double values = 0, messages = demands.work;  // s
  if (group.sends != Sends::nothing) messages += demands.exchange_work;
  if (demands.places.size() > 1) {
    values = demands.statistics_seconds + demands.value_seconds;
    if (machine_.link.bytes_per_second > 0)
      values += demands.values / machine_.link.bytes_per_second;
    for (const std::size_t place : demands.places)
      for (const bool in : {false, true}) send(number, place, in, demands.values);
  }
  for (std::size_t i = 0; i < group.lengths.size(); ++i) {
    if (group.lengths[i] == 0) continue;
    const std::size_t number_of_device = placement_.devices[number][i];
    Device& device = devices_[number_of_device];
    const double forward = in_ticks(kForward * group.lengths[i]), work = messages / 2;
    const double own = backward ? group.lengths[i] - forward : forward;
    device.busy += (own + work) / slowdown_[number_of_device];
    group.computing.push_back({std::max(device.served_until, now_) + own + in_ticks(work + values),
                               number_of_device, device.served});
  }
}

// Sends a group's activations to the merged layers, or with `back` their gradients to the group.
// Devices in the server's place need not send.
void VirtualClock::cross(int number, bool back) {
  const Group& group = groups_[number];
  const std::vector<std::size_t>& devices = placement_.devices[number];
  const std::size_t server = demands_.places.of_device[*placement_.server];
  std::vector<double> bytes(demands_.places.count);
  const std::vector<std::uint64_t>& samples = division(number, group.samples).samples;
  for (std::size_t i = 0; i < devices.size(); ++i)
    bytes[demands_.places.of_device[devices[i]]] +=
        demands_.activations * static_cast<double>(samples[i]) / costs_.images;
  for (const std::size_t place : demands_.groups[number].places) {
    if (place == server) continue;
    send(number, place, back, bytes[place]);
    send(number, server, !back, bytes[place]);
  }
}

// Sends gradients to the places that own parameters, or with `back` new values to the group. At a
// meeting, groups of one place add up their contributions in that place, and share the values.
void VirtualClock::exchange(int number, bool back, bool for_later) {
  const std::vector<std::size_t>& own = demands_.groups[number].places;
  std::vector<double> shares(demands_.owned.size());
  double all = 0;
  for (const std::size_t place : own) {
    shares[place] = groups_[number].meets ? 1 / sharers_[place] : 1;
    all += shares[place];
    send(number, place, back, shares[place] * (demands_.parameters - demands_.owned[place]),
         for_later);
  }
  for (std::size_t place = 0; place < shares.size(); ++place)
    send(number, place, !back, demands_.owned[place] * (all - shares[place]), for_later);
}

// The following functions run the mini-batches of groups.

void VirtualClock::begin(int number, std::uint64_t samples, Sends sends) {
  assert(!under_way(number) && samples > 0);
  Group& group = groups_[number];
  group.stage = Stage::awaits_values;
  group.samples = samples;
  group.sends = sends;
  group.lengths.clear();
  const Division& shares = division(number, samples);
  for (std::size_t i = 0; i < shares.samples.size(); ++i) {
    const std::size_t device = placement_.devices[number][i];
    const double replicated = placement_.server ? 1 - merged_share(device) : 1;
    group.lengths.push_back(
        shares.samples[i] == 0
            ? 0
            : at_least_a_tick(draw(device) * slowdown_[device] * replicated * shares.seconds));
  }
  // The mini-batch waits for the last piece of the parameters that were updated until now.
  if (group.values.messages > 0 || group.values.until > 0 || group.values_at > 0)
    group.values.extend(now_ + piece_seconds_);
}

// Moves the group's mini-batch to its next stage.
bool VirtualClock::go_on(int number) {
  Group& group = groups_[number];
  group.stage_wait = {};
  switch (group.stage) {
    case Stage::awaits_values:
      group.values = {};
      group.stage = Stage::forward;
      compute(number, false);
      return false;
    case Stage::forward:
      if (placement_.server) {
        group.stage = Stage::to_server;
        cross(number, false);
        return false;
      }
      break;
    case Stage::to_server: {
      group.stage = Stage::served;
      const std::size_t server = *placement_.server;
      const double seconds = at_least_a_tick(draw(server) * merged_share(server) *
                                             machine_.seconds(server, group.samples, costs_.flops));
      Device& device = devices_[server];
      device.served_until = std::max(device.served_until, now_) + seconds;
      device.served += seconds;
      device.busy += seconds;
      group.stage_wait.until = device.served_until;
      return false;
    }
    case Stage::served:
      group.stage = Stage::from_server;
      cross(number, true);
      return false;
    case Stage::from_server: break;
    case Stage::backward:
    case Stage::idle: group.stage = Stage::idle; return true;
  }
  group.stage = Stage::backward;
  compute(number, true);
  if (group.sends == Sends::nothing) return false;
  group.meets = group.sends == Sends::contribution;
  exchange(number, false, false);
  if (!group.meets) {
    expect_values(number);
    return false;
  }
  group.contributed = true;
  if (!std::ranges::all_of(groups_, &Group::contributed)) return false;
  for (int each = 0; each < std::ssize(groups_); ++each) {
    groups_[each].contributed = false;
    expect_values(each);
  }
  return false;
}

// Owners send values back as soon as the first piece of the gradient has arrived.
void VirtualClock::expect_values(int number) {
  Group& group = groups_[number];
  if (piece_seconds_ > 0)
    group.values_at = now_ + piece_seconds_;
  else
    exchange(number, true, true);
}

int VirtualClock::next() {
  while (true) {
    const auto first = std::ranges::min_element(groups_, {}, &Group::at);
    const double arrival = links_.next_arrival();
    assert(std::isfinite(std::min(first->at(), arrival)));
    now_ = std::max(now_, std::min(first->at(), arrival));
    if (arrival <= now_) {
      for (const Message& each : links_.arrived(now_)) {
        Group& group = groups_[each.group];
        Wait& wait = each.for_later ? group.values : group.stage_wait;
        --wait.messages;
        wait.extend(now_ + in_ticks(machine_.link.seconds));
      }
      continue;
    }
    const auto number = static_cast<int>(first - groups_.begin());
    if (first->values_at > 0 && first->values_at <= now_) {
      first->values_at = 0;
      exchange(number, true, true);
      continue;
    }
    std::erase_if(first->computing, [this](Computing& each) {
      if (each.end > now_) return false;
      const double served = devices_[each.device].served;
      if (served <= each.served) return true;
      each.end += served - std::exchange(each.served, served);
      return false;
    });
    if (first->is_complete(now_) && go_on(number)) return number;
  }
}

void VirtualClock::meet() {
  for (int group = 0; group < std::ssize(groups_); ++group) {
    groups_[group].meets = true;
    exchange(group, false, true);
    expect_values(group);
  }
}

void VirtualClock::give_up() {
  links_.give_up(now_);
  for (Device& device : devices_) device.served_until = std::min(device.served_until, now_);
  for (const Group& group : groups_)
    for (const Computing& each : group.computing)
      devices_[each.device].busy -= std::max(each.end - now_, 0.0) / slowdown_[each.device];
  std::ranges::fill(groups_, Group());
}

// The following functions return how busy devices and links were, and save and restore the clock.

VirtualClock::Busy VirtualClock::busy() const {
  Busy busy{.links = links_.busiest()};
  for (std::size_t i = 0; i < devices_.size(); ++i) {
    const bool serves = placement_.server == i && devices_[i].served > devices_[i].busy / 2;
    double& most = serves ? busy.server : busy.devices;
    most = std::max(most, devices_[i].busy);
  }
  return busy;
}

template <class Archive>
void VirtualClock::visit(Archive& archive) {
  for (Device& each : devices_) {
    archive(each.served_until);
    archive(each.served);
  }
  links_.visit(archive);
  for (Group& group : groups_) {
    int stage = static_cast<int>(group.stage), sends = static_cast<int>(group.sends);
    archive(stage);
    archive(sends);
    group.stage = static_cast<Stage>(stage);
    group.sends = static_cast<Sends>(sends);
    archive(group.samples);
    archive(group.contributed);
    archive(group.meets);
    archive(group.values_at);
    for (Wait* const wait : {&group.stage_wait, &group.values}) {
      archive(wait->messages);
      archive(wait->until);
    }
    archive.size(group.lengths);
    for (double& length : group.lengths) archive(length);
    archive.size(group.computing);
    for (Computing& each : group.computing) {
      archive(each.end);
      archive(each.device);
      archive(each.served);
    }
  }
}

VirtualClock::State VirtualClock::state() const {
  Writer writer;
  VirtualClock(*this).visit(writer);
  return {now_, std::move(writer.numbers), draws_};
}

bool VirtualClock::restore(const State& state) {
  VirtualClock restored = *this;
  Reader reader{state.numbers};
  restored.visit(reader);
  bool sound = reader.sound && reader.numbers.empty() && state.draws.size() == draws_.size() &&
               std::isfinite(state.now) && state.now >= 0;
  int messages = 0;  // messages for which groups wait; no others may be on links
  for (std::size_t i = 0; sound && i < groups_.size(); ++i) {
    const Group& group = restored.groups_[i];
    const auto number = static_cast<int>(i);
    messages += group.stage_wait.messages + group.values.messages;
    sound =
        group.stage_wait.messages == restored.links_.under_way(number, false) &&
        group.values.messages == restored.links_.under_way(number, true) &&
        group.stage <= Stage::backward && group.sends <= Sends::contribution &&
        (group.stage == Stage::idle ||
         (group.samples > 0 && group.lengths.size() == placement_.devices[i].size())) &&
        (placement_.server || group.stage <= Stage::forward || group.stage == Stage::backward) &&
        std::ranges::all_of(group.computing,
                            [&](const Computing& each) { return each.device < devices_.size(); });
  }
  if (!sound || messages != restored.links_.under_way()) return false;
  restored.now_ = state.now;
  restored.draws_ = state.draws;
  *this = std::move(restored);
  return true;
}

}  // namespace omni
