#include "runtime/data/feed/decode_tasks.hpp"

#include <array>

#include "runtime/data/feed/unpack.hpp"
#include "runtime/tasks/codelet.hpp"

namespace omni {
namespace {

constexpr auto decode_cpu = []<class T>(T, const DecodeArgs& args, const Buffers& buffers,
                                        DeviceContext&) {
  args.reader->fill(args.first_sample, args.count, buffers.get<T>(0));
  args.reader->read_labels(args.first_sample, args.count, buffers.get<std::int32_t>(1));
  ++*args.counter;
};

template <class T>
void make_samples_cpu(const DecodeArgs& args, const Buffers& buffers, DeviceContext&) {
  args.reader->fill(args.first_sample, args.count, buffers.get<T>(0));
  if (args.counter != nullptr) ++*args.counter;
}

void read_labels_cpu(const DecodeArgs& args, const Buffers& buffers, DeviceContext&) {
  args.reader->read_labels(args.first_sample, args.count, buffers.get<std::int32_t>(0));
}

template <int bytes>
Cost decode_cost(const DecodeArgs& args) {
  return {0, static_cast<double>(args.values_per_sample) * args.count * bytes};
}

constexpr std::uint64_t (*decode_footprint)(const DecodeArgs&) =
    footprint_by<&DecodeArgs::values_per_sample, &DecodeArgs::count>;

// Defines a codelet that prepares samples; `bytes` is the size of a value.
template <class T, int bytes>
CodeletDefinition<DecodeArgs> definition_apart(const char* name) {
  return {.name = name,
          .color = 0x8c8c8c,
          .implementations = {{"cpu", make_samples_cpu<T>}},
          .cost = decode_cost<1 + bytes>,
          .footprint = decode_footprint};
}

// These codelets differ in how long a sample takes, so each has a performance model of its own.
Codelet<DecodeArgs> read_image_files(definition_apart<std::uint8_t, 1>("read_image_files"));
Codelet<DecodeArgs> copy_image_pixels(definition_apart<std::uint8_t, 1>("copy_image_pixels"));
Codelet<DecodeArgs> read_image_values(definition_apart<float, 4>("read_image_values"));
Codelet<DecodeArgs> decode_samples(definition_apart<float, 4>("decode_samples"));

}  // namespace

Codelet<DecodeArgs> decode_batch(
    {.name = "decode_batch",
     .color = 0x9e9e9e,
     .implementations = {{.name = "cpu", .kernel = by_values<decode_cpu>, .in_bf16 = {0}}},
     .cost = decode_cost<5>,  // bytes in, floats out
     .footprint = decode_footprint,
     .when_done = [](const DecodeArgs& args) { args.images->send_to_lone_gpu(); }});
Codelet<DecodeArgs> read_image_labels({.name = "read_image_labels",
                                       .color = 0xc0c0c0,
                                       .implementations = {{"cpu", read_labels_cpu}},
                                       .cost = [](const DecodeArgs&) { return Cost(); },
                                       .footprint = decode_footprint});

Codelet<DecodeArgs>& codelet_apart(const SampleReader& reader) {
  const bool files = reader.dataset().has_all_sizes();
  if (reader.type_apart() == DataType::u8) return files ? read_image_files : copy_image_pixels;
  return files ? read_image_values : decode_samples;
}

int samples_per_task(const SampleReader& reader) {
  constexpr int kFilesPerTask = 4;
  constexpr std::size_t kCopiedPerTask = 1 << 20;
  return reader.dataset().has_all_sizes()
             ? kFilesPerTask
             : static_cast<int>((kCopiedPerTask - 1) / reader.values_per_sample()) + 1;
}

bool is_decoding(std::string_view codelet) {
  const std::array<const CodeletBase*, 8> all{
      &decode_batch,      &decode_samples,    &read_image_files, &read_image_values,
      &copy_image_pixels, &read_image_labels, &unpack_batch,     &gather_samples};
  return std::ranges::any_of(all, [&](const auto* each) { return each->name() == codelet; });
}

}  // namespace omni
