// These tests read Caffe's parameters, snapshots and LMDBs that do not fit the net or the command.
// They check messages and exit codes.
#include "tests/error/caffe/caffe_cases.hpp"
#include "tests/support/caffe/lmdb_writer.hpp"

namespace omni::test {
namespace {

using Words = std::vector<std::string>;

class CaffeParameters : public CaffeCases {
 protected:
  CaffeParameters() {
    put(folder_ / "n.prototxt", kCaffeData + caffe_layer("type: 'BatchNorm'") + kCaffeLoss);
    put(folder_ / "plain.prototxt", kCaffeData + caffe_layer("type: 'ReLU'") + kCaffeLoss);
    put(folder_ / "grey.prototxt",
        "layer { name: 'data' type: 'Data' top: 'data' top: 'label' transform_param { scale: 0.5 "
        "}\n"
        " data_param { batch_size: 2 } }\n" +
            caffe_layer("type: 'ReLU'") + kCaffeLoss);
    put(folder_ / "n.cfg",
        "[net]\nbatch=2\nheight=16\nwidth=16\nchannels=3\n[connected]\noutput=4\n[softmax]\n");
    put(folder_ / "s.prototxt", kCaffeSolver);
    put(folder_ / "adam.prototxt",
        "base_lr: 0.1 lr_policy: 'fixed' max_iter: 5 type: 'Adam' momentum: 0.9");
    put(folder_ / "x.h5", "\x89HDF\r\n\x1a\n----");
    put(folder_ / "cut.caffemodel", std::string("\xa2\x06\x7f", 3));
    put(folder_ / "other.caffemodel", caffe_layer_bytes("it", {caffe_blob({3}, {1, 2, 3})}));
    put(folder_ / "small.caffemodel",
        caffe_layer_bytes(
            "s", {caffe_blob({4, 3}, std::vector<float>(12)), caffe_blob({4}, {1, 2, 3, 4})}));
    const std::string weights = caffe_blob({4, 768}, std::vector<float>(3072, 0.5f)),
                      bias = caffe_blob({4}, {1, 2, 3, 4});
    put(folder_ / "good.caffemodel", caffe_layer_bytes("s", {weights, bias}));
    put(folder_ / "good.weights", std::string(20, '\0').replace(4, 1, "\2") +
                                      caffe_floats({1, 2, 3, 4}) +
                                      caffe_floats(std::vector<float>(3072, 0.5f)));
    const std::string head = caffe_number(1, 3) + caffe_bytes(2, "good.caffemodel");
    put(folder_ / "few.solverstate", head + caffe_bytes(3, weights));
    put(folder_ / "shape.solverstate", head + caffe_bytes(3, bias) + caffe_bytes(3, bias));
    put(folder_ / "lost.solverstate", caffe_number(1, 3) + caffe_bytes(2, "gone.caffemodel") +
                                          caffe_bytes(3, weights) + caffe_bytes(3, bias));
    put(folder_ / "none.solverstate",
        caffe_number(1, 3) + caffe_bytes(3, weights) + caffe_bytes(3, bias));
    write_lmdb(folder_ / "lmdb", {{"a", datum_of(16, 16, 3, 0, std::string(768, 'x'))},
                                  {"b", datum_of(16, 16, 3, 1, std::string(768, 'y'))}});
    const std::string lmdb = get(folder_ / "lmdb/data.mdb");
    std::filesystem::create_directory(folder_ / "cut");
    put(folder_ / "cut/data.mdb", lmdb.substr(0, lmdb.size() - 4096));
    put(folder_ / "mean", caffe_blob({3, 8, 8}, std::vector<float>(192)));
  }
  // Each @ in `words` stands for the test's folder.
  void expect(Words words, int code, const std::string& what) const {
    for (std::string& word : words)
      for (std::size_t at; (at = word.find('@')) != word.npos;)
        word.replace(at, 1, std::string(folder_ / ""));
    const Finished run = omni_run_fork(words);
    EXPECT_EQ(run.exit_code, code) << run.errors;
    EXPECT_NE(run.errors.find(what), std::string::npos)
        << "wanted: " << what << "\nsaid: " << run.errors;
  }
  Words train(Words more, const std::string& net = "@plain.prototxt",
              const std::string& solver = "@s.prototxt") const {
    Words words{"--net", net, "--solver", solver, "--out", "@run"};
    if (std::ranges::find(more, "--data") == more.end())
      words.insert(words.end(), {"--data", "synthetic:48:4"});
    words.insert(words.end(), more.begin(), more.end());
    return words;
  }
};

TEST_F(CaffeParameters, weights_are_refused) {
  expect(train({"--weights", "@small.caffemodel"}), 3,
         "small.caffemodel: layer 's': blob 0 is 4x3, the net's is 4x768 (give the net's layer "
         "another name");
  expect(train({"--weights", "@other.caffemodel"}), 3,
         "other.caffemodel: has parameters of no layer that the net has (its layers: 'it')");
  expect(train({"--weights", "@other.caffemodel"}, "@n.prototxt"), 3,
         "layer 'it': has 1 blobs, the net's has 3");
  expect(train({"--weights", "@cut.caffemodel"}), 3, "cut.caffemodel: field 100 at byte 2");
  expect(train({"--weights", "@x.h5"}), 2, "x.h5: HDF5 files are not read (convert it with Caffe");
  expect(train({"--weights", "@good.caffemodel,@gone.caffemodel"}), 2, "gone.caffemodel");
  expect(
      train({"--weights", "@good.weights,@good.caffemodel"}), 2,
      "is not the only file, but names no layers (only .caffemodel files can follow each other)");
  expect({"--net", "@n.cfg", "--data", "synthetic:48:4", "--max-batches", "1", "--out", "@run",
          "--weights", "@good.caffemodel"},
         3, "has parameters of no layer that the net has");
}

TEST_F(CaffeParameters, what_would_be_lost_is_refused_before_the_training) {
  expect(train({"--save-weights", "@x.weights"}, "@n.prototxt"), 2,
         "rolling_batches would be lost: .weights have no place for it (save a .caffemodel)");
  put(folder_ / "slopes.prototxt", kCaffeData + caffe_layer("type: 'PReLU'") + kCaffeLoss);
  expect(train({"--save-weights", "@x.weights"}, "@slopes.prototxt"), 2,
         "slopes would be lost: .weights have no place for it (save a .caffemodel)");
  expect(train({"--save-weights", "@new.h5"}), 2, "HDF5 files are not written");
  expect({"--net", "@n.cfg", "--data", "synthetic:48:4", "--save-weights", "@x.caffemodel"}, 2,
         "its layers have no names, as a .caffemodel needs");
  expect(train({"--save-weights", "@s.prototxt"}), 2, "s.prototxt");
}

TEST_F(CaffeParameters, conversions_that_would_lose_something_write_nothing) {
  const auto convert = [&](const std::string& from, const std::string& to, const std::string& net,
                           Words more = {}) {
    Words words{"convert", from, to, "--net", net};
    words.insert(words.end(), more.begin(), more.end());
    return words;
  };
  expect(convert("@good.caffemodel", "@y.txt", "@plain.prototxt"), 2,
         "its ending names no format (known: .weights .caffemodel .safetensors .cfg .prototxt)");
  expect(convert("@good.caffemodel", "@y.weights", "@n.prototxt"), 2, "would be lost");
  expect(convert("@good.caffemodel", "@y.caffemodel", "@n.prototxt"), 3,
         "no parameters of 'it' (nothing is written that is not in the file)");
  expect(convert("@good.weights", "@y.caffemodel", "@n.prototxt"), 3,
         "rolling_batches: .weights have no place for it (nothing is written that is not in");
  expect(convert("@good.weights", "@y.caffemodel", "@n.cfg"), 2, "its layers have no names");
  expect(convert("@good.weights", "@y.caffemodel", "@n.cfg", {"--as", "@plain.prototxt"}), 2,
         "plain.prototxt: its input is (pixel - 0) * 1, that of n (pixel - 0) * 0.003921569");
  expect(
      convert("@good.caffemodel", "@y.prototxt", "@plain.prototxt"), 2,
      "good.caffemodel' is none (convert a .cfg or .prototxt; --as names the net of parameters)");
  expect(convert("@n.cfg", "@y.prototxt", "@plain.prototxt"), 2,
         "is for the conversion of parameters (FROM is the net: leave it out)");
  expect({"convert", "@n.cfg", "@s.prototxt"}, 2, "nets are not replaced (choose a new name)");
  expect({"convert", "@gone.cfg", "@y.prototxt"}, 2, "no such net");
  EXPECT_FALSE(std::filesystem::exists(folder_ / "y.prototxt"));
  EXPECT_FALSE(std::filesystem::exists(folder_ / "y.caffemodel"));
  EXPECT_FALSE(std::filesystem::exists(folder_ / "y.weights"));
  expect(convert("@good.caffemodel", "@y.weights", "@plain.prototxt"), 0, "wrote ");
}

TEST_F(CaffeParameters, snapshots_are_refused) {
  expect(train({"--snapshot", "@few.solverstate"}), 3,
         "remembers 1 parameters, the net and its solver have 2 (it is of another net");
  expect(train({"--snapshot", "@shape.solverstate"}), 3, "weights is 4, the net's is 4x768");
  expect(train({"--snapshot", "@lost.solverstate"}), 3,
         "its parameters are not there: 'gone.caffemodel'");
  expect(train({"--snapshot", "@none.solverstate"}), 3, "names no parameters");
  expect(train({"--snapshot", "@lost.solverstate"}, "@plain.prototxt", "@adam.prototxt"), 3,
         "remembers 2 parameters, the net and its solver have 4");
  expect(train({"--snapshot", "@gone.solverstate"}), 2, "gone.solverstate");
  expect(train({"--snapshot", "@x.h5"}), 2, "HDF5 files are not read");
  expect(train({"--snapshot", "@few.solverstate", "--weights", "@good.caffemodel"}), 2,
         "--weights");
}

TEST_F(CaffeParameters, lmdbs_that_the_net_names_are_not_read_beside_other_data) {
  put(folder_ / "l.prototxt",
      "layer { name: 'data' type: 'Data' top: 'data' top: 'label'\n data_param { batch_size: 2 "
      "source: '" +
          std::string(folder_ / "cut") + "' backend: LMDB } }\n" + caffe_layer("type: 'ReLU'") +
          kCaffeLoss);
  const auto on = [&](const Words& data) {
    Words words{"--net", "@l.prototxt", "--solver", "@s.prototxt", "--out", "@run", "--dry-run"};
    words.insert(words.end(), data.begin(), data.end());
    return words;
  };
  expect(on({}), 3, "the file has only");
  const std::string lmdb = folder_ / "lmdb";
  const Finished run =
      omni_run_fork({"--net", folder_ / "l.prototxt", "--solver", folder_ / "s.prototxt", "--out",
                     folder_ / "run", "--dry-run", "--data", lmdb + "," + lmdb});
  EXPECT_EQ(run.exit_code, 0) << run.errors;
  EXPECT_NE(run.output.find("16x16x3"), std::string::npos) << "the size of these images";
  expect(on({"--data", "synthetic:48:4"}), 2, "the size of the images is not known");
}

// A source is relative to the working directory, or to the net's folder. If it is at neither place,
// no other data stand in for it.
TEST_F(CaffeParameters, lmdbs_are_found_beside_the_net) {
  const auto with_source = [&](const std::string& source) {
    put(folder_ / "l.prototxt",
        "layer { name: 'data' type: 'Data' top: 'data' top: 'label'\n"
        " data_param { batch_size: 2 source: '" +
            source + "' backend: LMDB } }\n" + caffe_layer("type: 'ReLU'") + kCaffeLoss);
    return Words{"--net", "@l.prototxt", "--solver", "@s.prototxt", "--no-test", "--out", "@run"};
  };
  expect(with_source("cut"), 3, "/cut: has 3 pages of 4096 bytes, but the file has only");
  expect(with_source("gone"), 2, "the size of the images is not known");
  Words sized = with_source("gone");
  for (const char* each : {"--set", "height=16", "--set", "width=16"}) sized.push_back(each);
  expect(sized, 2,
         "error: " + std::string(folder_ / "l.prototxt") +
             ":1: layer 'data': there is no LMDB 'gone' (name the data with --data; computed "
             "patterns are --data synthetic)");
}

TEST_F(CaffeParameters, lmdbs_and_means_are_refused) {
  expect(train({"--data", "@cut,@lmdb"}), 3, "the file has only");
  expect(train({"--data", "@lmdb"}), 2, "one LMDB alone has no test images");
  const auto with_mean = [&](const std::string& mean) {
    put(folder_ / "m.prototxt",
        "layer { name: 'data' type: 'Data' top: 'data' top: 'label'\n"
        " transform_param { mean_file: '" +
            mean +
            "' }\n"
            " data_param { batch_size: 2 source: '" +
            std::string(folder_ / "lmdb") + "' backend: LMDB } }\n" + caffe_layer("type: 'ReLU'") +
            kCaffeLoss);
    return Words{"--net", "@m.prototxt", "--solver", "@s.prototxt", "--no-test", "--out", "@run"};
  };
  expect(with_mean("mean"), 2, "has images of 16x16x3, but their mean is 8x8x3");
  expect(with_mean("good.weights"), 3, "good.weights: ");
  expect(with_mean("gone"), 2, "m.prototxt:2: layer 'data': no such mean_file: 'gone'");
}

}  // namespace
}  // namespace omni::test
