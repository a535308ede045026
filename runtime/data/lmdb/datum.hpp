// A Datum is an image with its label, as LMDBs hold them. It is a message of protobuf. Its fields
// are views of the bytes, and only fields that are asked for are read.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

#include "runtime/data/images/image.hpp"
#include "runtime/result.hpp"

namespace omni {

struct Datum {
  std::int64_t channels = 0, height = 0, width = 0, label = 0;
  bool encoded = false;     // `data` is an image file
  bool has_floats = false;  // its values are floats, which are not supported
  std::string_view data;    // else channel by channel, and colours blue first
};

// Parses a message. Errors name `where`.
Result<Datum> parse_datum(std::string_view bytes, const std::string& where);
// Returns the bytes of a Datum, with the image itself or with an image file.
std::string datum_of(const Image& image, int label);
std::string datum_of_file(std::string_view file, int label);
Result<Image> image_of(const Datum& datum, const std::string& where, LeastSize least);

}  // namespace omni
