// These tests check what a written prototxt keeps of the layers of data and of names, and what is
// said of the rest.
#include "tests/unit/caffe/write_nets.hpp"

namespace omni::test {
namespace {

// The layers of data, as they are written and read again.
class CaffeWriteData : public testing::Test {
 protected:
  static std::string layer(const std::string& fields, const std::string& phase = "") {
    return "layer { name: 'd' type: 'Data' top: 'data' top: 'y'\n"
           "  transform_param { crop_size: 16 } " +
           (phase.empty() ? "" : "include { phase: " + phase + " } ") + "data_param { " + fields +
           " } }\n";
  }
  static TrainableNet net_of(const std::string& data, const std::string& bottom = "data") {
    return parsed("name: 'My net'\n" + data + "layer { name: 'it' bottom: '" + bottom +
                  "' top: 'last' type: 'ReLU' }\n"
                  "layer { name: 's' type: 'InnerProduct' bottom: 'last' top: 's'\n"
                  "  inner_product_param { num_output: 4 } }\n"
                  "layer { name: 'l' type: 'SoftmaxWithLoss' bottom: 's' bottom: 'y' }\n");
  }
  static std::size_t count(const std::string& text, const std::string& of) {
    std::size_t found = 0;
    for (std::size_t at = text.find(of); at != text.npos; at = text.find(of, at + 1)) ++found;
    return found;
  }
};

TEST_F(CaffeWriteData, keeps_phases_and_mini_batches) {
  const std::string train = "source: 'a' backend: LMDB batch_size: 8",
                    test = "source: 'b' backend: LMDB batch_size: 5";
  struct Row {
    std::string data;
    std::size_t layers, includes;
    std::vector<std::string> texts;
  };
  const Row rows[] = {
      {layer(train, "TRAIN") + layer(test, "TEST"), 2, 2, {"source: \"b\"", "batch_size: 5"}},
      {layer(train), 1, 0, {"source: \"a\"", "batch_size: 8"}},
      {layer(train, "TRAIN"), 1, 1, {"phase: TRAIN"}},
      {"layer { name: 'd' type: 'Input' top: 'data' top: 'y' input_param {\n"
       "shape { dim: 8 dim: 3 dim: 16 dim: 16 } shape { dim: 8 } } }\n",
       1,
       0,
       {"type: \"Input\"", "dim: 16"}},
      {"layer { name: 'd' type: 'MemoryData' top: 'data' top: 'y' memory_data_param {\n"
       "batch_size: 8 channels: 3 height: 16 width: 16 } }\n",
       1,
       0,
       {"type: \"MemoryData\"", "height: 16"}},
  };
  for (const Row& row : rows) {
    SCOPED_TRACE(row.data);
    TrainableNet again;
    std::string text;
    const TrainableNet net = net_of(row.data);
    EXPECT_EQ(lost(net, true, MayLose::nothing, again, text), "");
    EXPECT_EQ(count(text, "name: \"images\""), row.layers) << text;
    EXPECT_EQ(count(text.substr(0, text.find("\"it\"")), "include"), row.includes) << text;
    for (const std::string& each : row.texts) EXPECT_NE(text.find(each), text.npos) << each << text;
    EXPECT_NE(text.find("name: \"My net\""), text.npos) << text;
    EXPECT_EQ(again.augment, net.augment);
    EXPECT_EQ(again.files.phases, net.files.phases);
    EXPECT_EQ(again.files.test_batch, net.files.test_batch);
  }
}

TEST_F(CaffeWriteData, what_is_invented_or_read_otherwise_is_said) {
  const auto said = [](const TrainableNet& net, bool caffe) {
    const log::Capture text;
    const auto first = made(net);
    auto written = caffe ? write_caffe_net(net, *first) : write_darknet_cfg(net, *first);
    auto again =
        caffe ? parse_caffe_net({*written, "b.prototxt"}) : parse_darknet_cfg(*written, "b.cfg");
    const auto last = made(*again);
    EXPECT_TRUE(check_same_net({*first, net, "a"}, {*last, *again, "b"}, MayLose::training));
    return text.text();
  };
  const auto cfg = parse_darknet_cfg(
      "[net]\nbatch=2\nheight=8\nwidth=8\nchannels=3\nmin_crop=9\nmax_crop=12\n"
      "[connected]\noutput=3\nactivation=linear\n[softmax]\n",
      "n.cfg");
  ASSERT_TRUE(cfg);
  const std::string of_cfg = said(*cfg, true);
  for (const char* what :
       {"reads images from train_lmdb, an LMDB that n does not name", "from test_lmdb",
        "test images of other sizes are cut by b, but resized by a",
        "a: min_crop 9 and max_crop 12 decide the size of test images, too: it is lost"})
    EXPECT_NE(of_cfg.find(what), of_cfg.npos) << what << of_cfg;
  TrainableNet net = net_of(layer("source: 'a' backend: LMDB batch_size: 8"));
  net.augment.byte_values = ByteValues{.scale = 1.0f / 255, .blue_first = true};
  EXPECT_NE(said(net, false).find("are cut by a, but resized by b"), std::string::npos);
  EXPECT_EQ(said(net, true), "");
}

TEST_F(CaffeWriteData, what_a_file_says_besides_would_be_lost) {
  const auto lost_of = [](const TrainableNet& net, bool caffe, MayLose may_lose) {
    TrainableNet again;
    std::string text;
    return lost(net, caffe, may_lose, again, text);
  };
  TrainableNet net = net_of(layer("batch_size: 8", "TRAIN") + layer("batch_size: 5", "TEST"));
  net.augment.byte_values = ByteValues{.scale = 1.0f / 255, .blue_first = true};
  for (LayerDescription& each : net.layers) each.name.clear();
  const std::string said = lost_of(net, false, MayLose::nothing);
  for (const char* what : {"the name 'My net' of the net", "mini-batches of 5 images in tests"})
    EXPECT_NE(said.find(what), said.npos) << said;
  const std::string rule = "include { stage: 'deploy' }", rest = "batch_size: 8";
  for (const std::string& other :
       {"layer { name: 'p' type: 'Softmax' bottom: 's' top: 'p' " + rule + " }\n",
        std::string("layer { name: 'e' type: 'HingeLoss' bottom: 'data' bottom: 'y'\n"
                    "include { phase: TEST } }\n")}) {
    const TrainableNet ruled = net_of(other + layer(rest));
    const std::string of_rules = lost_of(ruled, true, MayLose::nothing);
    EXPECT_NE(of_rules.find("this would be lost: rules of stages, levels and losses"),
              of_rules.npos)
        << of_rules;
    EXPECT_EQ(lost_of(ruled, true, MayLose::training), "");
  }
}

TEST_F(CaffeWriteData, new_names_are_those_of_no_other_blob) {
  const std::string data = layer("batch_size: 8");
  const TrainableNet net =
      net_of(data +
                 "layer { name: 'x' bottom: 'data' top: 'label' type: 'TanH' }\n"
                 "layer { name: 'z' bottom: 'label' top: 'accuracy' type: 'TanH' }\n"
                 "layer { name: 'w' bottom: 'accuracy' top: 'l_loss' type: 'TanH' }\n",
             "l_loss");
  TrainableNet again;
  std::string text;
  EXPECT_EQ(lost(net, true, MayLose::nothing, again, text), "") << text;
  EXPECT_NE(text.find("top: \"label_2\""), text.npos) << text;
  EXPECT_NE(text.find("top: \"accuracy_2\""), text.npos) << text;
  EXPECT_NE(text.find("top: \"l_loss_2\""), text.npos) << text;
}

}  // namespace
}  // namespace omni::test
