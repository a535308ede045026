// These functions return small good files of every kind that users give to the programs. Fuzzers
// begin with them, and mutations damage them.
#pragma once

#include <zlib.h>

#include <map>
#include <string>
#include <vector>

#include "layers/formats/safetensors.hpp"
#include "scheduling/checkpoint/checkpoint_folder.hpp"
#include "tests/support/caffe/caffe_messages.hpp"
#include "tests/support/caffe/lmdb_writer.hpp"
#include "tests/support/images/jpeg_writer.hpp"
#include "tests/support/images/png_writer.hpp"
#include "tests/support/synthetic_trace.hpp"
#include "tests/support/temporary_directory.hpp"

namespace omni::test {

inline std::string idx_file(char kind, const std::string& sizes, const std::string& values) {
  return std::string("\0\0\x08", 3) + kind + sizes + values;
}

inline std::string gzipped(const std::string& text) {
  const TemporaryDirectory folder;
  const gzFile file = gzopen((folder / "z").c_str(), "wb");
  gzwrite(file, text.data(), static_cast<unsigned>(text.size()));
  gzclose(file);
  return get(folder / "z");
}

inline std::vector<std::string> caffemodel_seeds() {
  const std::string blob = caffe_blob({2}, {1, 2});
  return {caffe_bytes(1, "net") + caffe_layer_bytes("a", {blob, blob}) + caffe_layer_bytes("b", {}),
          caffe_bytes(
              2, caffe_bytes(4, "a") + caffe_bytes(6, caffe_number(1, 1) + caffe_number(4, 2) +
                                                          caffe_bytes(5, caffe_floats({1, 2})))),
          caffe_layer_bytes(
              "a", {caffe_bytes(7, caffe_bytes(1, "\x01")) + caffe_bytes(8, std::string(8, 'd'))})};
}

inline std::vector<std::string> image_seeds() {
  std::vector<std::uint8_t> pixels;
  for (int i = 0; i < 4 * 17 * 23; ++i) pixels.push_back(static_cast<std::uint8_t>(i * 37));
  std::vector<std::string> files{"P5 4 3 255\n0123456789ab", "P6\n# 2x2\n2 2\n255\n0123456789ab"};
  for (const JpegKind& kind :
       {JpegKind{}, JpegKind{.progressive = true, .subsampled = true}, JpegKind{.subsampled = true},
        JpegKind{.colours = JCS_GRAYSCALE}, JpegKind{.progressive = true, .colours = JCS_YCCK}})
    files.push_back(make_jpeg(17, 23, pixels, kind));
  files.push_back(with_exif(make_jpeg(8, 9, pixels), make_exif(6)));
  files.push_back(with_exif(make_jpeg(8, 9, pixels), make_exif(4, true)));
  return files;
}

// Some images have rows without compression, so that a mutation reaches the filters.
inline std::vector<std::string> png_seeds() {
  std::vector<std::uint8_t> rows;
  for (int i = 0; i < 8 * 17 * 23; ++i) rows.push_back(static_cast<std::uint8_t>(i * 37));
  const std::vector<png_color> palette(200, png_color{9, 99, 199});
  const std::vector<png_color> two(2, png_color{9, 99, 199});
  std::vector<std::string> files;
  for (const PngKind& kind :
       {PngKind{}, PngKind{.compression = 0}, PngKind{.depth = 16, .interlaced = true},
        PngKind{.colours = PNG_COLOR_TYPE_RGB_ALPHA, .compression = 0},
        PngKind{.depth = 16, .colours = PNG_COLOR_TYPE_GRAY_ALPHA, .interlaced = true},
        PngKind{.depth = 2, .colours = PNG_COLOR_TYPE_GRAY},
        PngKind{.colours = PNG_COLOR_TYPE_PALETTE, .palette = palette},
        PngKind{.depth = 1, .colours = PNG_COLOR_TYPE_PALETTE, .interlaced = true, .palette = two}})
    files.push_back(make_png(17, 23, rows, kind));
  files.push_back(with_chunk(files[6], "tRNS", "0123456789"));
  files.push_back(with_chunk(files[5], "tRNS", std::string("\0\3", 2)));
  files.push_back(with_chunk(with_chunk(files[1], "eXIf", make_exif(7)), "gAMA", "1234"));
  return files;
}

inline std::string safetensors_seed() {
  const std::vector<float> values{1, 2, 3, 4, 5, 6};
  const std::vector<NamedArray> arrays{{"weights", {2, 2}, std::span(values).first(4)},
                                       {"biases", {2}, std::span(values).last(2)}};
  std::string bytes;
  const auto sink = [&](std::span<const std::byte> block) -> Status {
    bytes.append(reinterpret_cast<const char*>(block.data()), block.size());
    return {};
  };
  const Status written = write_safetensors(sink, arrays, {{"net", "lenet"}, {"step", "7"}});
  return written ? bytes : "";
}

inline std::string trace_seed() {
  const TemporaryDirectory folder;
  write_synthetic_trace(folder.path(), {.slices = 2, .layers = 2, .tasks = 12});
  return get(folder / "rank-0.jsonl");
}

// Returns the files by the name of their fuzzer.
inline std::map<std::string, std::vector<std::string>> seeds(const std::string& nets) {
  using std::string;
  const string images = idx_file('\3', string("\0\0\0\2\0\0\0\2\0\0\0\3", 12), "0123456789ab");
  const string labels = idx_file('\1', string("\0\0\0\2", 4), string("\0\1", 2));
  const string record = "\3" + string(3072, 'x');
  const string old_weights("\0\0\0\0\1\0\0\0\0\0\0\0\5\0\0\0", 16);
  const string new_weights("\0\0\0\0\2\0\0\0\0\0\0\0\5\0\0\0\0\0\0\0", 20);
  const string oracle = OMNI_SOURCE_DIR "/tests/e2e/caffe_oracle/";
  string manifest = manifest_text({7, "0123456789abcdef", "omnivore 0.1", 4096, 17});
  return {
      {"prototxt",
       {get(nets + "/caffe/lenet_train_test.prototxt") + "\n---\n" +
            get(nets + "/caffe/lenet_solver.prototxt"),
        get(nets + "/caffe/cifar10_quick_train_test.prototxt") + "\n---\n" +
            get(nets + "/caffe/cifar10_quick_solver.prototxt"),
        get(oracle + "paired.prototxt") + "\n---\n" + get(oracle + "paired_solver.prototxt"),
        get(oracle + "regressed.prototxt") + "\n---\n" +
            get(oracle + "regressed_solver.prototxt")}},
      {"cfg",
       {get(nets + "/lenet.cfg"), get(nets + "/mlp.cfg"), get(nets + "/cifar10-quick.cfg"),
        "[net]\nbatch=2\nheight=4\nwidth=3\nchannels=2\nflip=1\n[connected]\noutput=24\n"
        "[input]\nname=facts\ninputs=24\n[input]\n[target]\nfrom=0\nloss_weight=2\n"
        "[route]\nlayers=0\n[target]\nfrom=1\ntype=logistic\nmean=1\nteach=0\n"}},
      {"binaryproto",
       {caffe_blob({1, 1, 1, 2}, {3, 4}), caffe_blob({2, 1, 1}, {3, 4}),
        caffe_number(1, 1) + caffe_number(2, 1) + caffe_number(3, 2) + caffe_number(4, 1) +
            caffe_bytes(5, caffe_floats({1, 2}))}},
      {"caffemodel", caffemodel_seeds()},
      {"solverstate",
       {caffe_number(1, 7) + caffe_bytes(2, "a.caffemodel") +
            caffe_bytes(3, caffe_blob({2}, {1, 2})) + caffe_bytes(3, caffe_blob({1, 2}, {3, 4})) +
            caffe_number(4, 1),
        caffe_number(1, 0) + caffe_bytes(2, "b")}},
      {"datum",
       {datum_of(2, 2, 3, 5, "abcdefghijkl"), datum_of(1, 2, 1, 0, "ab"),
        encoded_datum("P5 4 3 255\n0123456789ab", 1)}},
      {"weights", {old_weights + string(16, 'w'), new_weights + string(32, 'w')}},
      {"safetensors", {safetensors_seed()}},
      {"manifest", {manifest, manifest.substr(0, manifest.rfind(",\n"))}},
      {"machine",
       {R"({"name": "m", "devices": [{"kind": "gpu", "count": 2, "seconds": {"16": 0.01, "32": 0.016},
         "spread": {"lognormal": 0.1}, "memory": 8000000000}, {"kind": "cpu", "overhead": 1e-4,
         "flops_per_second": 5e10, "half_size": 4, "spread": "exponential"}],
         "link": {"seconds": 1e-5, "bytes_per_second": 1e10}})"}},
      {"idx", {images, labels, gzipped(images), gzipped(labels)}},
      {"cifar", {record, record + record}},
      {"image_lists",
       {"cat/1.pgm 0\ncat/1.pgm 1\n", "cat/1.pgm\ncat/1.pgm\n", "cat\ndog\n",
        "# a set\nclasses = 2\ntrain = images\nvalid=images\nnames = names\ntop = 5\n"}},
      {"libsvm",
       {"# two classes\n+1 1:0.5 3:-2e1 4:1\n\n-1 2:1 3:7 # the other\n", "0\n3 1:1\n7 20:0.125\n",
        gzipped("1 1:1 2:2\n2 2:1\n")}},
      {"image", image_seeds()},
      {"png", png_seeds()},
      {"trace", {trace_seed()}},
      {"metrics",
       {"{\"iteration\":1,\"time\":0.5,\"loss\":2.3,\"loss_average\":2.3,\"accuracy\":0.1}\n"
        "{\"iteration\":2,\"time\":1.5,\"test_loss\":2.1,\"test_accuracy\":0.5}\n"}},
      {"fxt",
       {"Name: first\nJobId: 2\nWorkerId: 0\nMemoryNode: 0\nSubmitTime: 1.0\nStartTime: 2.0\n"
        "EndTime: 3.0\nGFlop: 0.1\nIteration: 7 1\nHandles: 55aa 55cc\nModes: W S\nSizes: 20 4\n"
        "MPIRank: -1\n\nName: second\nJobId: 3\nDependsOn: 2\nWorkerId: 1\nMemoryNode: 1\n"
        "SubmitTime: 1.5\nStartTime: 4.0\nEndTime: 6.0\nHandles: 55aa\nModes: R\nSizes: 20\n"
        "MPIRank: -1\n\n",
        "JobId: 2\nWorkerId: 0\nStartTime: 2.0\nEndTime: 3.0\nHandles: " + string(5000, 'a') +
            "\nModes: W\nMPIRank: -1\n\n"}},
      {"terminal", {"a name", "\x1b[2J\xc2\x9b 31m\x9b\xe2\x80\xae\xc3\xb6\x7f\t\n"}}};
}

}  // namespace omni::test
