// omni-run dataset makes an LMDB of images, as Caffe's convert_imageset does, and the mean of
// images, as compute_image_mean does. Or it shows what an LMDB holds.
#include <fmt/format.h>

#include <algorithm>
#include <map>
#include <numeric>
#include <optional>

#include "apps/omni-run/commands.hpp"
#include "apps/omni-run/progress.hpp"
#include "apps/output_file.hpp"
#include "layers/formats/caffe/caffe_binary.hpp"
#include "runtime/data/images/resize.hpp"
#include "runtime/data/lmdb/datum.hpp"
#include "runtime/data/lmdb/lmdb_file.hpp"
#include "runtime/data/lmdb/lmdb_writer.hpp"
#include "runtime/data/open.hpp"
#include "runtime/files.hpp"
#include "runtime/json_text.hpp"
#include "runtime/log.hpp"
#include "runtime/number_in.hpp"
#include "runtime/rng.hpp"

namespace omni {
namespace {

constexpr int kLongestSide = 1 << 13;  // so that an image has at most kMaxPixels

// "256x128" is 256 wide.
std::optional<Extent> size_in(std::string_view text) {
  const std::size_t cross = text.find('x');
  if (cross == text.npos) return std::nullopt;
  const auto w = count_in(text.substr(0, cross), kLongestSide);
  const auto h = count_in(text.substr(cross + 1), kLongestSide);
  return w && h ? std::optional(Extent{*h, *w, 0}) : std::nullopt;
}

Result<std::unique_ptr<Dataset>> open_images(const std::string& from) {
  OMNI_TRY(DatasetPair data, open_dataset({.source = from, .net_input = {}, .test = false}));
  if (data.train->holds_vectors())
    return Error{ErrorKind::usage, from, "holds vectors, no images", "name images"};
  OMNI_CHECK(data.train->look_for_files(0));
  return std::move(data.train);
}

std::vector<std::size_t> order_of(std::size_t count, const DatasetArguments& arguments) {
  std::vector<std::size_t> order(count);
  std::iota(order.begin(), order.end(), std::size_t{0});
  Draws draws(Philox(arguments.seed, RandomStream::shuffle), 0);
  for (std::size_t i = count; arguments.shuffle && i > 1; --i)
    std::swap(order[i - 1], order[draws.below(static_cast<std::uint32_t>(i))]);
  return order;
}

// Computes the mean of images, which must have one size.
class Mean {
 public:
  Status add(const Image& image, const std::string& name) {
    if (count_++ == 0) {
      extent_ = image.extent;
      sums_.resize(extent_.count());
    }
    if (image.extent != extent_)
      return Error{ErrorKind::data, name,
                   fmt::format("is {}x{}x{}, and images before are {}x{}x{}", image.extent.w,
                               image.extent.h, image.extent.c, extent_.w, extent_.h, extent_.c),
                   "a mean is of images of one size: add --resize 256x256, say"};
    std::ranges::transform(sums_, image.pixels, sums_.begin(),
                           [](double sum, std::uint8_t pixel) { return sum + pixel; });
    return {};
  }
  // Colours come blue first, as in every file of Caffe.
  MeanImage result() const {
    MeanImage mean{extent_, std::vector<float>(sums_.size())};
    const std::size_t channels = extent_.c;
    for (std::size_t i = 0; i < sums_.size(); ++i) {
      const std::size_t c = i % channels, from = channels == 3 ? i - c + 2 - c : i;
      mean.values[i] = static_cast<float>(sums_[from] / static_cast<double>(count_));
    }
    return mean;
  }

 private:
  Extent extent_;
  std::vector<double> sums_;
  std::size_t count_ = 0;
};

bool is_image(int channels) { return channels == 1 || channels == 3; }  // grey, or of colours

Result<std::string> datum_to_store(const Dataset& data, std::size_t index, const Image& image,
                                   bool encoded) {
  if (!encoded) return datum_of(image, data.label(index));
  const std::string file = data.name_of(index);
  OMNI_TRY(const std::string bytes, read_file(file, kMostFileBytes));
  if (!is_jpeg(bytes) && !is_png(bytes))
    return Error{ErrorKind::data, file, "is neither a JPEG nor a PNG file",
                 "leave out --encoded, which stores files as they are"};
  return datum_of_file(bytes, data.label(index));
}

Status make(const Dataset& data, const DatasetArguments& arguments) {
  std::error_code none;
  if (arguments.encoded && !std::filesystem::is_regular_file(data.name_of(0), none))
    return Error{ErrorKind::usage, arguments.from, "has no image files that could be stored",
                 "leave out --encoded"};
  if (!arguments.mean.empty()) {
    OMNI_CHECK(check_output({.option = "--mean",
                             .path = arguments.mean,
                             .read = {arguments.from},
                             .written = {arguments.to},
                             .replaceable = [](const auto&) { return false; },
                             .foreign = "is not replaced"}));
  }
  std::optional<LmdbWriter> writer;
  if (!arguments.to.empty()) {
    OMNI_TRY(LmdbWriter made, LmdbWriter::create(arguments.to));
    writer.emplace(std::move(made));
  }
  const std::optional<Extent> size = size_in(arguments.size);
  const int channels = arguments.grey ? 1 : data.extent().c;
  Progress progress(arguments.common.quiet);
  Mean mean;
  std::size_t done = 0;
  for (const std::size_t index : order_of(data.size(), arguments)) {
    Image image;
    OMNI_CHECK(data.read(index, {}, image));
    if (const int own = image.extent.c;
        own != channels && !(is_image(own) && is_image(channels)))
      return Error{ErrorKind::data, data.name_of(index), fmt::format("has {} channels", own),
                   is_image(channels) ? "known are 1 and 3"
                                      : fmt::format("others have {}", channels)};
    image = with_channels(image, channels);
    if (size) image = resized(image, size->h, size->w);
    if (!arguments.mean.empty()) OMNI_CHECK(mean.add(image, data.name_of(index)));
    if (writer) {
      OMNI_TRY(const std::string datum, datum_to_store(data, index, image, arguments.encoded));
      const std::string key = fmt::format("{:08}_{}", done, data.name_of(index));
      OMNI_CHECK(writer->put(std::string_view(key).substr(0, LmdbWriter::kLongestKey), datum));
    }
    progress.prepared(++done, data.size());
  }
  progress.finish_line();
  if (writer) {
    OMNI_CHECK(writer->finish());
    log::info("wrote {}: {} images of {} classes", arguments.to, data.size(), data.classes());
  }
  if (!arguments.mean.empty()) {
    OMNI_CHECK(save_caffe_mean(mean.result(), arguments.mean));
    log::info("wrote {}", arguments.mean);
  }
  return {};
}

// Shown counts the entries of an LMDB: encoded files and raw pixels.
struct Shown {
  std::uint64_t encoded = 0, raw = 0;
  std::int64_t least_h = INT64_MAX, most_h = 0, least_w = INT64_MAX, most_w = 0;  // of raw images
};

void look_at(void* context, std::string_view, std::string_view value) {
  Shown& shown = *static_cast<Shown*>(context);
  const auto datum = parse_datum(value, "");
  if (!datum) return;
  ++(datum->encoded ? shown.encoded : shown.raw);
  if (datum->encoded) return;
  shown.least_h = std::min(shown.least_h, datum->height);
  shown.most_h = std::max(shown.most_h, datum->height);
  shown.least_w = std::min(shown.least_w, datum->width);
  shown.most_w = std::max(shown.most_w, datum->width);
}

Status show(const DatasetArguments& arguments) {
  if (!LmdbFile::is(arguments.from))
    return Error{ErrorKind::usage, arguments.from, "is no LMDB that could be shown",
                 "name the LMDB to make behind it, or give --mean FILE"};
  Shown shown;
  std::map<int, std::size_t> images;  // by label
  {
    OMNI_TRY(const LmdbFile file, LmdbFile::open(arguments.from));
    OMNI_CHECK(file.for_each(look_at, &shown));
  }
  OMNI_TRY(const auto data, open_images(arguments.from));
  for (std::size_t i = 0; i < data->size(); ++i) ++images[data->label(i)];
  if (arguments.common.json) {
    nlohmann::ordered_json classes = nlohmann::ordered_json::array();
    for (const auto& [label, count] : images)
      classes.push_back({{"label", label}, {"images", count}});
    nlohmann::ordered_json all{{"images", data->size()},
                               {"encoded", shown.encoded},
                               {"channels", data->extent().c},
                               {"classes", std::move(classes)}};
    if (shown.raw > 0) {
      all["height"] = {shown.least_h, shown.most_h};
      all["width"] = {shown.least_w, shown.most_w};
    }
    log::result("{}\n", json_text(all, 2));
    return {};
  }
  const auto range = [](std::int64_t least, std::int64_t most) {
    return least == most ? fmt::format("{}", least) : fmt::format("{} to {}", least, most);
  };
  log::result("images    {}\n", data->size());
  if (shown.raw > 0)
    log::result("raw       {}: width {}, height {}, {} channel{}\n", shown.raw,
                range(shown.least_w, shown.most_w), range(shown.least_h, shown.most_h),
                data->extent().c, data->extent().c == 1 ? "" : "s");
  if (shown.encoded > 0) log::result("encoded   {}\n", shown.encoded);
  log::result("first     {}\nlast      {}\n", data->name_of(0), data->name_of(data->size() - 1));
  log::result("\n{:>10} {:>10}\n", "label", "images");
  for (const auto& [label, count] : images) log::result("{:>10} {:>10}\n", label, count);
  return {};
}

}  // namespace

std::string image_size(std::string& value) {
  if (size_in(value)) return "";
  return fmt::format("{} is no size, as 256x256: sides are 1 to {}", shown_name(value),
                     kLongestSide);
}

Status dataset_command(const DatasetArguments& arguments) {
  if (arguments.to.empty() && arguments.mean.empty()) return show(arguments);
  OMNI_TRY(const auto data, open_images(arguments.from));
  log::info("data: {}", data->description());
  return make(*data, arguments);
}

}  // namespace omni
