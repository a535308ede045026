#include "scheduling/forecast/virtual_clock.hpp"

#include <algorithm>
#include <cassert>
#include <cmath>
#include <numbers>
#include <span>
#include <utility>

namespace omni {
namespace {

constexpr double kTicks = 0x1p30;     // per second
constexpr double kForward = 1.0 / 3;  // of computing

// Libraries and compilers differ in the last bit of a logarithm: rounding hides that from all but
// some 1 in 10^8 draws.
double in_ticks(double seconds) { return std::round(seconds * kTicks) / kTicks; }

double at_least_a_tick(double seconds) { return std::max(in_ticks(seconds), 1 / kTicks); }

// Above 0, below 1.
double unit(std::uint32_t high, std::uint32_t low) {
  const std::uint64_t bits = std::uint64_t{high} << 32 | low;
  return (static_cast<double>(bits >> 12) + 0.5) * 0x1p-52;
}

struct Writer {
  static constexpr bool reads = false;
  std::vector<double> numbers{};

  void operator()(auto& value) { numbers.push_back(static_cast<double>(value)); }
  void size(const auto& list) { numbers.push_back(static_cast<double>(list.size())); }
};

struct Reader {
  static constexpr bool reads = true;
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
      resources_(machine_.devices.size() + 2 * demands_.places.count),
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

double VirtualClock::Group::at() const {
  const bool waits = stage == Stage::idle || (stage == Stage::awaits_values && values_at > 0);
  double first = waits ? INFINITY : 0;
  if (!spans.empty()) first = std::ranges::min_element(spans, {}, &Span::end)->end;
  return values_at > 0 ? std::min(first, values_at) : first;
}

double VirtualClock::draw(std::size_t number) {
  const Machine::Device& device = machine_.devices[number];
  if (device.law == Machine::Law::constant) return 1;
  const Philox::Block bits = random_(number, draws_[number]++);
  const double logarithm = -std::log(unit(bits[0], bits[1]));
  if (device.law == Machine::Law::exponential) return logarithm;
  const double angle = 2 * std::numbers::pi * unit(bits[2], bits[3]);
  const double normal = std::sqrt(2 * logarithm) * std::cos(angle);
  return std::exp(device.sigma * (normal - device.sigma / 2));  // the mean is 1
}

const Division& VirtualClock::division(int group, std::uint64_t samples) {
  const auto [place, is_new] = divisions_[group].try_emplace(samples);
  if (is_new) place->second = divide(machine_, placement_.devices[group], samples, costs_.flops);
  return place->second;
}

// ---- resources ----

VirtualClock::Span VirtualClock::in_order(std::size_t number, double seconds) {
  Resource& resource = resources_[number];
  const double from = std::max(now_, resource.free_at);
  resource.free_at = from + std::max(resource.urgent_until - from, 0.0) + in_ticks(seconds);
  resource.busy += seconds;
  return {resource.free_at, number, resource.taken};
}

VirtualClock::Span VirtualClock::urgent(std::size_t number, double seconds) {
  Resource& resource = resources_[number];
  const double length = in_ticks(seconds), from = std::max(now_, resource.urgent_until);
  resource.urgent_until = from + length;
  resource.taken += length;
  resource.busy += seconds;
  if (resource.free_at > from) resource.free_at += length;
  return {resource.urgent_until, kNone, 0};
}

// One way over the link of a place.
void VirtualClock::send(std::vector<Span>& spans, std::size_t place, bool in, double bytes,
                        bool is_urgent) {
  if (!has_link(place) || bytes <= 0) return;
  const Machine::Link& of = machine_.link;
  const double seconds = of.bytes_per_second > 0 ? bytes / of.bytes_per_second : 0;
  Span span = is_urgent ? urgent(link(place, in), seconds) : in_order(link(place, in), seconds);
  span.end += in_ticks(of.seconds);
  spans.push_back(span);
}

// ---- what a mini-batch demands ----

// Computing of one pass, with half of the messages' work and the waits for values of others.
void VirtualClock::compute(int number, bool backward) {
  Group& group = groups_[number];
  const Demands::Group& demands = demands_.groups[number];
  std::vector<Span> on_link;
  for (const std::size_t place : demands.places)
    for (const bool in : {false, true}) send(on_link, place, in, demands.values, true);
  double values = 0;  // s
  if (demands.places.size() > 1)
    values =
        demands.statistics_seconds + demands.value_seconds +
        (machine_.link.bytes_per_second > 0 ? demands.values / machine_.link.bytes_per_second : 0);
  for (std::size_t i = 0; i < group.lengths.size(); ++i) {
    if (group.lengths[i] == 0) continue;
    const std::size_t device = placement_.devices[number][i];
    Resource& resource = resources_[device];
    const double forward = in_ticks(kForward * group.lengths[i]), work = demands.work / 2;
    const double own = backward ? group.lengths[i] - forward : forward;
    resource.busy += (own + work) / slowdown_[device];
    const double start = std::max(resource.urgent_until, now_);
    group.spans.push_back({start + own + in_ticks(work + values), device, resource.taken});
  }
}

// Activations to the merged layers, or their gradients back. What lies there already does not
// travel.
void VirtualClock::cross(int number, bool back) {
  Group& group = groups_[number];
  const std::vector<std::size_t>& devices = placement_.devices[number];
  const std::size_t server = demands_.places.of_device[*placement_.server];
  std::vector<double> bytes(demands_.places.count);
  const std::vector<std::uint64_t>& samples = division(number, group.samples).samples;
  for (std::size_t i = 0; i < devices.size(); ++i)
    bytes[demands_.places.of_device[devices[i]]] +=
        demands_.activations * static_cast<double>(samples[i]) / costs_.images;
  for (const std::size_t place : demands_.groups[number].places) {
    if (place == server) continue;
    send(group.spans, place, back, bytes[place], false);
    send(group.spans, server, !back, bytes[place], true);
  }
}

// Gradients to the owners, who are all places, or values back. Groups of one place add up their
// contributions there.
void VirtualClock::exchange(int number, bool back, std::vector<Span>& spans) {
  const std::vector<std::size_t>& own = demands_.groups[number].places;
  std::vector<double> shares(demands_.owned.size());
  double all = 0;
  for (const std::size_t place : own) {
    shares[place] = groups_[number].sends == Sends::contribution ? 1 / sharers_[place] : 1;
    all += shares[place];
    send(spans, place, back, shares[place] * (demands_.parameters - demands_.owned[place]), false);
  }
  for (std::size_t place = 0; place < shares.size(); ++place)
    send(spans, place, !back, demands_.owned[place] * (all - shares[place]), true);
}

// ---- mini-batches ----

void VirtualClock::begin(int number, std::uint64_t samples, Sends sends) {
  assert(!under_way(number) && samples > 0);
  Group& group = groups_[number];
  group.stage = Stage::awaits_values;
  group.samples = samples;
  group.sends = sends;
  group.lengths.clear();
  const Division& shares = division(number, samples);
  const double replicated = placement_.server ? 1 - costs_.merged_share : 1;
  for (std::size_t i = 0; i < shares.samples.size(); ++i) {
    const std::size_t device = placement_.devices[number][i];
    group.lengths.push_back(
        shares.samples[i] == 0
            ? 0
            : at_least_a_tick(draw(device) * slowdown_[device] * replicated * shares.seconds));
  }
  group.spans = std::exchange(group.arriving, {});
  // The last piece of what was updated until now.
  if (!group.spans.empty() || group.values_at > 0)
    group.spans.push_back({now_ + piece_seconds_, kNone, 0});
}

// To the next stage, whose spans it makes.
bool VirtualClock::go_on(int number) {
  Group& group = groups_[number];
  switch (group.stage) {
    case Stage::awaits_values:
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
      group.spans.push_back(
          urgent(server, at_least_a_tick(draw(server) * costs_.merged_share *
                                         machine_.seconds(server, group.samples, costs_.flops))));
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
  exchange(number, false, group.spans);
  if (group.sends == Sends::update) {
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

// When the first piece of parameters has arrived at its owner.
void VirtualClock::expect_values(int number) {
  Group& group = groups_[number];
  if (piece_seconds_ > 0)
    group.values_at = now_ + piece_seconds_;
  else
    exchange(number, true, group.arriving);
}

int VirtualClock::next() {
  while (true) {
    const auto first = std::ranges::min_element(groups_, {}, &Group::at);
    const auto number = static_cast<int>(first - groups_.begin());
    assert(std::isfinite(first->at()));
    now_ = std::max(now_, first->at());
    if (first->values_at > 0 && first->values_at <= now_) {
      first->values_at = 0;
      const bool awaited = first->stage == Stage::awaits_values;
      exchange(number, true, awaited ? first->spans : first->arriving);
      continue;
    }
    std::erase_if(first->spans, [this](Span& span) {
      if (span.end > now_) return false;
      const double taken = span.resource == kNone ? 0 : resources_[span.resource].taken;
      if (taken <= span.taken) return true;
      span.end += taken - std::exchange(span.taken, taken);
      return false;
    });
    if (first->spans.empty() && go_on(number)) return number;
  }
}

void VirtualClock::meet() {
  for (Group& group : groups_) group.sends = Sends::contribution;
  for (int group = 0; group < std::ssize(groups_); ++group)
    exchange(group, false, groups_[group].arriving);
  for (int group = 0; group < std::ssize(groups_); ++group) expect_values(group);
}

void VirtualClock::give_up() {
  for (Resource& resource : resources_) {
    resource.free_at = std::min(resource.free_at, now_);
    resource.urgent_until = std::min(resource.urgent_until, now_);
  }
  std::ranges::fill(groups_, Group());
}

// ---- what it was, and was busy with ----

VirtualClock::Busy VirtualClock::busy() const {
  Busy busy;
  for (std::size_t i = 0; i < resources_.size(); ++i) {
    const bool serves = placement_.server == i && machine_.devices[i].serves_merged;
    double& most = i >= machine_.devices.size() ? busy.links : serves ? busy.server : busy.devices;
    most = std::max(most, resources_[i].busy);
  }
  return busy;
}

template <class Archive>
void VirtualClock::visit(Archive& archive) {
  const auto all = [&](std::vector<Span>& spans) {
    archive.size(spans);
    for (Span& span : spans) {
      // 0: none
      std::size_t resource = span.resource + 1;
      archive(span.end);
      archive(resource);
      archive(span.taken);
      span.resource = resource - 1;
    }
  };
  for (Resource& each : resources_)
    for (double* const number : {&each.free_at, &each.urgent_until, &each.taken}) archive(*number);
  for (Group& group : groups_) {
    int stage = static_cast<int>(group.stage), sends = static_cast<int>(group.sends);
    archive(stage);
    archive(sends);
    archive(group.samples);
    archive(group.contributed);
    archive(group.values_at);
    archive.size(group.lengths);
    for (double& length : group.lengths) archive(length);
    all(group.spans);
    all(group.arriving);
    group.stage = static_cast<Stage>(stage);
    group.sends = static_cast<Sends>(sends);
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
  const auto are_sound = [&](const std::vector<Span>& spans) {
    return std::ranges::all_of(spans, [&](const Span& span) {
      return span.resource == kNone || span.resource < resources_.size();
    });
  };
  for (std::size_t i = 0; sound && i < groups_.size(); ++i) {
    const Group& group = restored.groups_[i];
    const bool idle = group.stage == Stage::idle;
    sound = group.stage <= Stage::backward && group.sends <= Sends::contribution &&
            (idle || (group.samples > 0 && group.lengths.size() == placement_.devices[i].size())) &&
            are_sound(group.spans) && are_sound(group.arriving);
  }
  if (!sound) return false;
  restored.now_ = state.now;
  restored.draws_ = state.draws;
  *this = std::move(restored);
  return true;
}

}  // namespace omni
