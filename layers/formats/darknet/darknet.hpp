// This header reads and writes Darknet's files: descriptions of nets, and weights.
#pragma once

#include <cstdint>
#include <filesystem>
#include <span>
#include <string_view>
#include <utility>

#include "layers/formats/darknet/sections.hpp"
#include "layers/net.hpp"
#include "layers/net_description.hpp"
#include "runtime/files.hpp"
#include "runtime/result.hpp"

namespace omni {

Result<TrainableNet> read_darknet_cfg(const std::filesystem::path& path,
                                      const ReadOptions& how = {});
Result<TrainableNet> parse_darknet_cfg(std::string_view text, std::string_view file_name,
                                       const ReadOptions& how = {});

// Writes a description as the text of a cfg file, without a solver. Refuses a layer that Darknet
// lacks. `net` is built from the description.
Result<std::string> write_darknet_cfg(const TrainableNet& of, const Net& net);

// A DarknetCfg is the content of a cfg file by its grammar: sections, key=value, comments. The
// words are not interpreted.
struct DarknetCfg {
  std::string name;  // of the file, without folder and extension
  Section net;       // [net] / [network]
  std::vector<Section> layers;
};
Result<DarknetCfg> parse_darknet_sections(std::string_view text, std::string_view file_name);
// Describes the net that a cfg file defines.
Result<TrainableNet> describe_darknet_net(DarknetCfg cfg, const ReadOptions& how);

std::span<const Key> net_keys();
// Sets the option that one of [net]'s keys names, as if [net] had this value.
Status set_named(NamedOptions& named, std::string_view key, std::string_view value);

// These functions read and write the parameters of a net, in the order of Darknet's layers.
// Darknet's matrices are channels-first.
Status load_darknet_weights(Net& net, const std::filesystem::path& path);
Status save_darknet_weights(Net& net, const std::filesystem::path& path, std::uint64_t images_seen);

// Returns whether .weights files have a place for a layer's parameter.
bool has_place_in_darknet(const Layer& layer, const Param& param);

// A .weights file is a short header, then floats without names, shapes or checksum. The caller
// knows which layer owns which floats; the functions below only count bytes.

struct DarknetWeightsHeader {
  std::int32_t major = 0, minor = 2, revision = 0;  // what Darknet writes today
  std::uint64_t seen = 0;                           // images trained on

  bool wide_seen() const {  // true: `seen` takes 8 bytes; false, in old files: 4
    return std::int64_t{major} * 10 + minor >= 2 && major < 1000 && minor < 1000;
  }
  // True: matrices of connected layers are stored as (inputs, outputs).
  bool transposed() const { return major > 1000 || minor > 1000; }
};

class DarknetWeightsReader {
 public:
  static Result<DarknetWeightsReader> open(const std::filesystem::path& path);

  const DarknetWeightsHeader& header() const { return header_; }
  std::uint64_t remaining() const { return remaining_; }  // bytes
  // Returns whether current programs write such a header. The first numbers of a file of another
  // kind may look like a header of an old version.
  bool is_of_today() const {
    return header_.major == 0 && header_.minor > 0 && header_.minor < 10 && remaining_ % 4 == 0;
  }

  // expect() has to be called before anything is loaded. It refuses a file with fewer than
  // `float_count` floats left. It also refuses one with more, unless `more_may_follow`.
  Status expect(std::uint64_t float_count, bool more_may_follow) const;
  // Reads the next block of floats. `what` names the block in errors, as "layer 3 biases".
  Status read(std::span<float> block, std::string_view what);

 private:
  DarknetWeightsReader(std::filesystem::path path, InputFile file)
      : path_(std::move(path)), file_(std::move(file)), remaining_(file_.size()) {}
  Status read_header();
  std::filesystem::path path_;
  InputFile file_;
  DarknetWeightsHeader header_;
  std::uint64_t remaining_ = 0;
};

// Creates a file that begins with the header. The caller then writes the blocks of floats.
Result<AtomicFile> create_darknet_weights(const std::filesystem::path& path,
                                          const DarknetWeightsHeader& header);

}  // namespace omni
