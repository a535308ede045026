// A .solverstate file has the state of the solver: for each parameter the velocity, or the means of
// squares.
#include <fmt/format.h>

#include "layers/formats/caffe/caffe.hpp"
#include "layers/formats/caffe/caffe_blobs.hpp"
#include "layers/formats/caffe/caffe_files.pb.h"
#include "runtime/shown_name.hpp"

namespace omni {
namespace {

enum Field { iterations = 1, parameters = 2, history = 3, current_step = 4 };
constexpr std::uint64_t kMostIterations = 1'000'000'000'000;

// Remembered says to which blob an entry of the solver's history belongs. `tensor` is null for a
// parameter that is not trained.
struct Remembered {
  const CaffeBlob* blob;
  const Tensor* tensor;
};

// Returns the entries of the history in the order of the file. Adam has all means of gradients
// first, AdaDelta all means of squared gradients.
std::vector<Remembered> remembered(const Net& net, const std::vector<BlobsOfLayer>& layers) {
  const bool two = net.adam(), squares_first = net.rule() == StepRule::adadelta;
  std::vector<Remembered> all;
  for (int state = 0; state < (two ? 2 : 1); ++state)
    for (const BlobsOfLayer& layer : layers)
      for (const CaffeBlob& blob : layer.blobs) {
        const Param& param = *blob.stored.param;
        all.push_back({&blob, (state == 1) != squares_first ? param.mean_square : param.velocity});
      }
  return all;
}

Error refusal(const CaffeSource& source, std::string what, std::string hint) {
  return {ErrorKind::data, source.where, std::move(what), std::move(hint)};
}

}  // namespace

Result<CaffeSnapshot> read_caffe_snapshot(const CaffeSource& source, const OfHistory& of_history) {
  CaffeSnapshot snapshot;
  std::int64_t iteration = -1;
  const Status read = read_caffe_message(
      source,
      [&](int field, std::int64_t value) {
        if (field == iterations) iteration = value;
      },
      [&](int field, const std::string& bytes) -> Status {
        if (field == parameters) snapshot.parameters = bytes;
        if (field != history) return {};
        caffe_files::BlobProto blob;
        OMNI_CHECK(parse_caffe_message(source, bytes, blob));
        return of_history(blob);
      });
  if (!read) return Error(read.error());
  if (iteration < 0 || static_cast<std::uint64_t>(iteration) > kMostIterations)
    return source.damaged(fmt::format("iteration {} is none", iteration));
  if (snapshot.parameters.empty())
    return refusal(source, "names no parameters", "is it a .solverstate of Caffe?");
  snapshot.iteration = static_cast<std::uint64_t>(iteration);
  return snapshot;
}

Result<CaffeSnapshot> load_caffe_snapshot(Net& net, const std::filesystem::path& path) {
  if (net.rule() == StepRule::usual)
    return Error{ErrorKind::usage, path.string(), "is of a solver of Caffe", "give --solver, too"};
  OMNI_TRY(const CaffeSource source, CaffeSource::open(path));
  const std::vector<BlobsOfLayer> layers = blobs_of(net);
  const std::vector<Remembered> expected = remembered(net, layers);
  std::size_t next = 0;
  auto read = read_caffe_snapshot(source, [&](caffe_files::BlobProto& blob) -> Status {
    if (next == expected.size())
      return refusal(source, fmt::format("remembers more than {} parameters", next),
                     "it is of another net, or of another type of solver");
    const Remembered& each = expected[next++];
    if (each.tensor == nullptr) return {};
    return take_blob(source, fmt::format("what it remembers of {}", each.blob->stored.param->name),
                     blob, *each.blob, *each.tensor);
  });
  if (!read) return std::move(read.error());
  CaffeSnapshot snapshot = *std::move(read);
  if (next != expected.size())
    return refusal(source,
                   fmt::format("remembers {} parameters, the net and its solver have {}", next,
                               expected.size()),
                   "it is of another net, or of another type of solver");
  std::error_code ignored;
  const auto beside = path.parent_path() / snapshot.parameters.filename();
  if (!std::filesystem::exists(snapshot.parameters, ignored)) {
    if (!std::filesystem::exists(beside, ignored))
      return refusal(
          source,
          fmt::format("its parameters are not there: {}", shown_name(snapshot.parameters.string())),
          "their path is relative to the working directory; or put them beside it");
    snapshot.parameters = beside;
  }
  return snapshot;
}

Status save_caffe_snapshot(const Net& net, const std::filesystem::path& path,
                           const CaffeSnapshot& snapshot, int step) {
  OMNI_TRY(CaffeFileWriter file, CaffeFileWriter::create(path));
  OMNI_CHECK(file.number(iterations, snapshot.iteration));
  OMNI_CHECK(file.bytes(parameters, snapshot.parameters.string()));
  const std::vector<BlobsOfLayer> layers = blobs_of(net);
  for (const Remembered& each : remembered(net, layers)) {
    caffe_files::BlobProto blob;
    if (each.tensor != nullptr) {
      OMNI_CHECK(put_blob(*each.blob, *each.tensor, 1, blob));
    } else {
      int count = 1;
      for (const std::int64_t dimension : each.blob->shape) {
        blob.mutable_shape()->add_dim(dimension);
        count *= static_cast<int>(dimension);
      }
      blob.mutable_data()->Resize(count, 0);
    }
    OMNI_CHECK(file.message(history, blob));
  }
  OMNI_CHECK(file.number(current_step, static_cast<std::uint64_t>(step)));
  return file.commit();
}

bool is_caffe_snapshot(const std::filesystem::path& path) {
  const auto source = CaffeSource::open(path);
  bool counted = false;
  const auto number = [&](int field, std::int64_t) { counted = counted || field == iterations; };
  const auto bytes = [](int, const std::string&) { return Status(); };
  return source && read_caffe_message(*source, number, bytes) && counted;
}

std::string snapshot_beside(const std::filesystem::path& parameters, const Net& net) {
  if (parameters.extension() != ".caffemodel" || net.rule() == StepRule::usual) return "";
  return std::filesystem::path(parameters).replace_extension(".solverstate").string();
}

}  // namespace omni
