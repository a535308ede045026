// A safetensors file has 8 bytes with the header's length (little endian), a JSON header, and then
// the arrays one after the other.
#include "layers/formats/safetensors.hpp"

#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include <algorithm>
#include <array>
#include <bit>
#include <limits>
#include <new>
#include <set>
#include <tuple>
#include <utility>

#include "runtime/files.hpp"
#include "runtime/shown_name.hpp"

namespace omni {
namespace {

// A SafetensorsEntry is one array in the JSON header of the file.
struct SafetensorsEntry {
  std::string name, dtype;
  std::vector<std::int64_t> shape;
  std::uint64_t begin = 0, end = 0;  // bytes, from the end of the header
};

struct SafetensorsHeader {
  Metadata metadata;
  std::vector<SafetensorsEntry> entries;  // sorted by place
};

using nlohmann::json;

// Each of these values takes few bytes of text but many bytes of memory, so their numbers are
// limited. A tensor takes at least fifty bytes of text, so the limit of the header's length also
// limits tensors.
constexpr std::size_t kMostDimensions = 8, kMostMetadata = 4096;

constexpr std::array<std::string_view, 16> kOtherTypes = {
    "BOOL", "U8",   "I8",  "F8_E5M2", "F8_E4M3", "F8_E8M0", "I16", "U16",
    "F16",  "BF16", "I32", "U32",     "F64",     "I64",     "U64", "C64"};

class HeaderHandler final : public json::json_sax_t {
 public:
  SafetensorsHeader header;
  std::string problem;

  bool start_object(std::size_t) override {
    if (place_ == Place::document) return enter(Place::entries);
    if (place_ == Place::entry) return enter(Place::metadata);
    if (place_ == Place::tensor_entry) return enter(Place::tensor);
    return refuse("an object where none belongs");
  }
  bool key(std::string& name) override {
    if (place_ == Place::entries) return entry_key(name);
    if (place_ == Place::metadata) return metadata_key(name);
    return tensor_key(name);
  }
  bool end_object() override {
    if (place_ == Place::metadata) return enter(Place::entries);
    if (place_ == Place::entries) return enter(Place::end);
    if (place_ != Place::tensor || seen_fields_ != 7)
      return refuse("a tensor needs dtype, shape and data_offsets");
    return enter(Place::entries);
  }
  bool string(std::string& text) override {
    if (place_ == Place::metadata_value) {
      metadata_value_->second = text;
      return enter(Place::metadata);
    }
    if (place_ != Place::dtype) return refuse("a text where none belongs");
    header.entries.back().dtype = text;
    return enter(Place::tensor);
  }
  bool start_array(std::size_t) override {
    if (place_ == Place::shape) return enter(Place::shape_items);
    if (place_ == Place::offsets) return enter(Place::offset_items);
    return refuse("a list where none belongs");
  }
  bool end_array() override {
    if (place_ == Place::offset_items && offset_count_ != 2)
      return refuse("data_offsets needs two numbers");
    return enter(Place::tensor);
  }
  bool number_unsigned(std::uint64_t value) override {
    SafetensorsEntry* entry = header.entries.empty() ? nullptr : &header.entries.back();
    if (place_ == Place::shape_items) {
      if (value > std::uint64_t{std::numeric_limits<std::int64_t>::max()})
        return refuse("a dimension is too large");
      if (entry->shape.size() == kMostDimensions)
        return refuse(fmt::format("more than {} dimensions", kMostDimensions));
      entry->shape.push_back(static_cast<std::int64_t>(value));
      return true;
    }
    if (place_ != Place::offset_items) return refuse("a number where none belongs");
    if (offset_count_ == 2) return refuse("data_offsets needs two numbers");
    (offset_count_++ == 0 ? entry->begin : entry->end) = value;
    return true;
  }
  bool number_integer(std::int64_t) override { return refuse("a negative number"); }
  bool number_float(double, const std::string&) override { return refuse("a fractional number"); }
  bool null() override { return refuse("null where a value belongs"); }
  bool boolean(bool) override { return refuse("true or false where another value belongs"); }
  bool binary(json::binary_t&) override { return refuse("binary data"); }
  bool parse_error(std::size_t position, const std::string&, const json::exception&) override {
    return refuse(fmt::format("not valid JSON at byte {}", position));
  }

 private:
  // Place is where in the header the parser is, which determines what may come next.
  enum class Place {
    document,
    entries,
    entry,
    tensor_entry,
    metadata,
    metadata_value,
    tensor,
    dtype,
    shape,
    shape_items,
    offsets,
    offset_items,
    end
  };

  bool enter(Place place) {
    place_ = place;
    return true;
  }
  bool refuse(std::string what) {
    problem = std::move(what);
    if (!name_.empty()) problem += ", in " + shown_name(name_);
    return false;
  }
  bool entry_key(const std::string& name) {
    name_ = name;
    if (!names_.insert(name).second) return refuse("a name appears twice");
    if (name == "__metadata__") return enter(Place::entry);
    header.entries.emplace_back().name = name;
    seen_fields_ = 0;
    offset_count_ = 0;
    return enter(Place::tensor_entry);
  }
  bool metadata_key(const std::string& name) {
    const auto [place, is_new] = header.metadata.try_emplace(name);
    if (!is_new) return refuse(fmt::format("the key {} appears twice", shown_name(name)));
    if (header.metadata.size() > kMostMetadata)
      return refuse(fmt::format("more than {} keys", kMostMetadata));
    metadata_value_ = place;
    return enter(Place::metadata_value);
  }
  bool tensor_key(const std::string& name) {
    static constexpr std::array<std::tuple<std::string_view, unsigned, Place>, 3> kFields = {
        {{"dtype", 1, Place::dtype},
         {"shape", 2, Place::shape},
         {"data_offsets", 4, Place::offsets}}};
    for (const auto& [field, bit, place] : kFields) {
      if (name != field) continue;
      if ((seen_fields_ & bit) != 0) return refuse(fmt::format("{} appears twice", field));
      seen_fields_ |= bit;
      return enter(place);
    }
    return refuse(fmt::format("unknown key {}", shown_name(name)));
  }

  Place place_ = Place::document;
  std::string name_;
  std::set<std::string> names_;
  Metadata::iterator metadata_value_;
  unsigned seen_fields_ = 0;
  int offset_count_ = 0;
};

std::string type_problem(const SafetensorsEntry& entry) {
  const bool known = std::ranges::find(kOtherTypes, entry.dtype) != kOtherTypes.end();
  return fmt::format("{} has {} type {}, only F32 is read", shown_name(entry.name),
                     known ? "the" : "the unknown", shown_name(entry.dtype));
}

// Returns "" if the entry is a float array that begins at byte `expected_begin`, otherwise the
// problem.
std::string entry_problem(const SafetensorsEntry& entry, std::uint64_t expected_begin) {
  if (entry.dtype != "F32") return type_problem(entry);
  std::uint64_t bytes = sizeof(float);
  for (const std::int64_t dimension : entry.shape) {
    if (__builtin_mul_overflow(bytes, static_cast<std::uint64_t>(dimension), &bytes))
      return fmt::format("the shape of {} overflows", shown_name(entry.name));
  }
  if (entry.begin != expected_begin)
    return fmt::format(
        "{} begins at byte {} of the data, {} expected: the arrays overlap or leave a hole",
        shown_name(entry.name), entry.begin, expected_begin);
  if (entry.end < entry.begin || entry.end - entry.begin != bytes)
    return fmt::format("{} needs {} bytes for its shape, its data_offsets are {} to {}",
                       shown_name(entry.name), bytes, entry.begin, entry.end);
  return "";
}

// Parses the header without recursion, and accepts nothing but the format's grammar. Then checks
// that the entries are float arrays that cover `data_size` bytes one after the other.
Result<SafetensorsHeader> parse_safetensors_header(std::string_view text, std::uint64_t data_size,
                                                   const std::string& where) {
  const auto refuse = [&](std::string what) {
    return Error{ErrorKind::data, where, "safetensors header: " + std::move(what),
                 "the file is damaged, or of another kind"};
  };
  if (!text.starts_with('{')) return refuse("does not begin with '{'");
  // The JSON library takes a zero byte for the end of the text, and would ignore what follows.
  if (const std::size_t zero = text.find('\0'); zero != std::string_view::npos)
    return refuse(fmt::format("not valid JSON at byte {}", zero));
  HeaderHandler handler;
  if (!json::sax_parse(text, &handler)) return refuse(handler.problem);

  SafetensorsHeader& header = handler.header;
  std::ranges::stable_sort(header.entries, {}, [](const SafetensorsEntry& entry) {
    return std::pair(entry.begin, entry.end);
  });
  std::uint64_t begin = 0;
  for (const SafetensorsEntry& entry : header.entries) {
    if (std::string problem = entry_problem(entry, begin); !problem.empty())
      return refuse(std::move(problem));
    begin = entry.end;
  }
  if (begin != data_size)
    return refuse(fmt::format("{} bytes of arrays, but {} bytes of data follow", begin, data_size));
  return std::move(header);
}

static_assert(std::endian::native == std::endian::little,
              "values are written as they are in memory");

constexpr std::uint64_t kLengthBytes = 8;
constexpr std::uint64_t kLongestHeader = 10'000'000;  // a tenth of the reference implementation's

Error wrong_input(std::string what) {
  return {ErrorKind::failed, "safetensors", std::move(what), ""};
}

Result<std::uint64_t> byte_count(const NamedArray& array) {
  std::uint64_t count = 1;
  for (const std::int64_t dimension : array.shape) {
    if (dimension < 0 ||
        __builtin_mul_overflow(count, static_cast<std::uint64_t>(dimension), &count))
      return wrong_input(fmt::format("{} has an impossible shape", shown_name(array.name)));
  }
  if (!array.fetch && count != array.values.size())
    return wrong_input(fmt::format("{} has {} values, its shape needs {}", shown_name(array.name),
                                   array.values.size(), count));
  return count * sizeof(float);
}

Result<std::string> header_text(std::span<const NamedArray> arrays, const Metadata& metadata) {
  auto header = nlohmann::ordered_json::object();
  if (!metadata.empty()) header["__metadata__"] = metadata;
  std::map<std::string_view, bool> names;
  std::uint64_t begin = 0;
  for (const NamedArray& array : arrays) {
    OMNI_TRY(const std::uint64_t bytes, byte_count(array));
    if (array.name == "__metadata__" || !names.emplace(array.name, true).second)
      return wrong_input(fmt::format("the name {} is taken", shown_name(array.name)));
    header.push_back(
        {array.name,
         {{"dtype", "F32"}, {"shape", array.shape}, {"data_offsets", {begin, begin + bytes}}}});
    begin += bytes;
  }
  std::string text;
  try {
    text = header.dump();
  } catch (const nlohmann::json::exception&) {
    return wrong_input("a name or a metadata text is not UTF-8");
  }
  // Programs that map the file can use the data in place if they start at a multiple of 8 bytes.
  text.resize((text.size() + 7) / 8 * 8, ' ');
  if (text.size() > kLongestHeader) return wrong_input("the header is longer than readers accept");
  return text;
}

}  // namespace

const NamedArray* Safetensors::find(std::string_view name) const {
  const auto place = index_.find(name);
  return place == index_.end() ? nullptr : &arrays_[place->second];
}

Status write_safetensors(const ByteSink& sink, std::span<const NamedArray> arrays,
                         const Metadata& metadata) {
  OMNI_TRY(const std::string header, header_text(arrays, metadata));
  const std::uint64_t length = header.size();
  OMNI_CHECK(sink(std::as_bytes(std::span(&length, 1))));
  OMNI_CHECK(sink(std::as_bytes(std::span(header))));
  for (const NamedArray& array : arrays)
    OMNI_CHECK(array.fetch ? array.fetch(sink) : sink(std::as_bytes(array.values)));
  return {};
}

Result<Safetensors> Safetensors::read(const ByteSource& source, std::uint64_t size,
                                      const std::string& where) {
  const auto refuse = [&](std::string what) {
    return Error{ErrorKind::data, where, std::move(what),
                 "the file is truncated, or not a safetensors file"};
  };
  if (size < kLengthBytes)
    return refuse(fmt::format("{} bytes are too few for a safetensors file", size));
  std::uint64_t length = 0;
  OMNI_CHECK(source(std::as_writable_bytes(std::span(&length, 1))));
  if (length > kLongestHeader)
    return refuse(fmt::format("claims a header of {} bytes, at most {} are accepted", length,
                              kLongestHeader));
  if (length > size - kLengthBytes)
    return refuse(
        fmt::format("claims a header of {} bytes, only {} follow", length, size - kLengthBytes));
  std::string text(length, '\0');
  OMNI_CHECK(source(std::as_writable_bytes(std::span(text))));
  const std::uint64_t data_size = size - kLengthBytes - length;
  OMNI_TRY(SafetensorsHeader header, parse_safetensors_header(text, data_size, where));

  Safetensors file;
  file.metadata_ = std::move(header.metadata);
  // The header has been checked, so data_size is exactly the size of all arrays.
  const std::size_t count = data_size / sizeof(float);
  file.values_ = std::make_unique_for_overwrite<float[]>(count);
  OMNI_CHECK(source(std::as_writable_bytes(std::span(file.values_.get(), count))));
  for (SafetensorsEntry& entry : header.entries) {
    const float* values = file.values_.get() + entry.begin / sizeof(float);
    const std::size_t size_of_entry = (entry.end - entry.begin) / sizeof(float);
    file.index_.emplace(entry.name, file.arrays_.size());
    file.arrays_.push_back(
        {std::move(entry.name), std::move(entry.shape), {values, size_of_entry}});
  }
  return file;
}

Result<Safetensors> read_safetensors(const ByteSource& source, std::uint64_t size,
                                     const std::string& where) {
  try {
    return Safetensors::read(source, size, where);
  } catch (const std::bad_alloc&) {
    return Error{ErrorKind::out_of_memory, where,
                 fmt::format("not enough memory for its {} bytes", size), ""};
  }
}

Result<Safetensors> read_safetensors(const std::filesystem::path& path) {
  OMNI_TRY(auto file, InputFile::open(path));
  return read_safetensors([&](std::span<std::byte> bytes) { return file.read(bytes); }, file.size(),
                          path.string());
}

}  // namespace omni
