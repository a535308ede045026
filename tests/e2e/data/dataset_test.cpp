// omni-run dataset makes LMDBs that trainings read, shows them, and computes the mean of images.
#include <gtest/gtest.h>
#include <lmdb.h>

#include <algorithm>
#include <cmath>

#include "tests/support/caffe/lmdb_writer.hpp"
#include "tests/support/images/jpeg_writer.hpp"
#include "tests/support/omni_run.hpp"

namespace omni::test {
namespace {

constexpr int kImageSide = 4;

// Returns the entries of an LMDB, in the order of their keys, by the library itself.
LmdbEntries entries_of(const std::filesystem::path& folder) {
  LmdbEntries all;
  MDB_env* env = nullptr;
  MDB_txn* transaction = nullptr;
  MDB_dbi database = 0;
  MDB_cursor* cursor = nullptr;
  EXPECT_EQ(mdb_env_create(&env), 0);
  EXPECT_EQ(mdb_env_open(env, folder.c_str(), MDB_RDONLY | MDB_NOLOCK, 0), 0) << folder;
  EXPECT_EQ(mdb_txn_begin(env, nullptr, MDB_RDONLY, &transaction), 0);
  EXPECT_EQ(mdb_dbi_open(transaction, nullptr, 0, &database), 0);
  EXPECT_EQ(mdb_cursor_open(transaction, database, &cursor), 0);
  const auto text = [](const MDB_val& of) {
    return std::string(static_cast<const char*>(of.mv_data), of.mv_size);
  };
  MDB_val key, value;
  while (mdb_cursor_get(cursor, &key, &value, MDB_NEXT) == 0)
    all.emplace_back(text(key), text(value));
  mdb_cursor_close(cursor);
  mdb_txn_abort(transaction);
  mdb_env_close(env);
  return all;
}

class DatasetCommand : public testing::Test {
 protected:
  DatasetCommand() {
    for (int i = 0; i < 10; ++i) {
      const std::string name = std::to_string(i) + ".ppm";
      put(folder_ / name, "P6\n4 4\n255\n" + pixels_of(i));
      list_ += name + " " + std::to_string(i % 2) + "\n";
    }
    put(folder_ / "list.txt", list_);
  }
  static std::string pixels_of(int i) {
    std::string pixels;
    for (int k = 0; k < kImageSide * kImageSide * 3; ++k)
      pixels += static_cast<char>((i % 2) * 120 + (i * 17 + k * 13) % 100);
    return pixels;
  }
  std::string list() const { return folder_ / "list.txt"; }
  Finished dataset(std::vector<std::string> words) const {
    words.insert(words.begin(), "dataset");
    return omni_run(words);
  }
  TemporaryDirectory folder_;
  std::string list_;
};

TEST_F(DatasetCommand, an_lmdb_holds_the_images_of_a_list) {
  const std::string lmdb = folder_ / "lmdb";
  const Finished made = dataset({list(), lmdb});
  ASSERT_EQ(made.exit_code, 0) << made.errors;
  const LmdbEntries found = entries_of(lmdb);
  ASSERT_EQ(found.size(), 10u);
  for (int i = 0; i < 10; ++i) {
    const auto& [key, datum] = found[static_cast<std::size_t>(i)];
    EXPECT_EQ(key.substr(0, 9), "0000000" + std::to_string(i) + "_");
    EXPECT_EQ(key.substr(key.size() - 6), "/" + std::to_string(i) + ".ppm");
    EXPECT_EQ(datum, datum_of(kImageSide, kImageSide, 3, i % 2, pixels_of(i)));
  }
  const Finished shown = dataset({lmdb, "--json"});
  ASSERT_EQ(shown.exit_code, 0) << shown.errors;
  const auto said = nlohmann::json::parse(shown.output);
  EXPECT_EQ(said["images"], 10);
  EXPECT_EQ(said["encoded"], 0);
  EXPECT_EQ(said["channels"], 3);
  EXPECT_EQ(said["height"], (nlohmann::json{4, 4}));
  EXPECT_EQ(said["classes"][1], (nlohmann::json{{"label", 1}, {"images", 5}}));
  EXPECT_NE(dataset({lmdb}).output.find("raw       10: width 4, height 4, 3 channels"),
            std::string::npos);
  // What it wrote is trained on.
  put(folder_ / "n.cfg",
      "[net]\nbatch=5\nheight=4\nwidth=4\nlearning_rate=0.1\nmax_batches=40\n"
      "[connected]\noutput=2\nactivation=linear\n[softmax]\n");
  const Finished trained = omni_run({"--net", folder_ / "n.cfg", "--data", lmdb + "," + lmdb,
                                     "--json", "--out", folder_ / "run"});
  ASSERT_EQ(trained.exit_code, 0) << trained.errors;
  EXPECT_EQ(nlohmann::json::parse(trained.output)["test_accuracy"], 1.0);
}

// The net names an LMDB that cannot be read, and does not say how large images are. The size is
// that of the images of --data, also for the members of an ensemble.
TEST_F(DatasetCommand, an_lmdb_of_the_command_line_replaces_the_one_of_the_net) {
  const std::string lmdb = folder_ / "lmdb", both = lmdb + "," + lmdb;
  ASSERT_EQ(dataset({list(), lmdb}).exit_code, 0);
  std::filesystem::create_directory(folder_ / "cut");
  put(folder_ / "cut/data.mdb", get(lmdb + "/data.mdb").substr(0, 5000));
  put(folder_ / "n.prototxt",
      "layer { name: 'd' type: 'Data' top: 'data' top: 'label' data_param { batch_size: 5 source: "
      "'" +
          std::string(folder_ / "cut") +
          "' backend: LMDB } }\n"
          "layer { name: 's' type: 'InnerProduct' bottom: 'data' top: 's'\n"
          "  inner_product_param { num_output: 2 weight_filler { type: 'xavier' } } }\n"
          "layer { name: 'l' type: 'SoftmaxWithLoss' bottom: 's' bottom: 'label' }\n");
  put(folder_ / "s.prototxt", "base_lr: 0.0001 lr_policy: 'fixed' max_iter: 2\n");
  const std::vector<std::string> net{"--net", folder_ / "n.prototxt", "--solver",
                                     folder_ / "s.prototxt"};
  const auto run = [&](std::vector<std::string> words, bool with_net = true) {
    if (with_net) words.insert(words.end(), net.begin(), net.end());
    const Finished finished = omni_run(words);
    return fmt::format("{} {}", finished.exit_code, finished.errors);
  };
  EXPECT_EQ(run({"--dry-run"}).substr(0, 1), "3");
  EXPECT_EQ(run({"--data", both, "--out", folder_ / "run"}).substr(0, 1), "0");
  EXPECT_EQ(run({"ensemble", "--data", both, "--out", folder_ / "members"}).substr(0, 1), "0");
  EXPECT_EQ(run({"valid", "--ensemble", folder_ / "members", "--data", both}, false).substr(0, 1),
            "0");
}

TEST_F(DatasetCommand, images_are_grey_resized_and_shuffled) {
  const std::string lmdb = folder_ / "lmdb";
  const Finished made =
      dataset({list(), lmdb, "--gray", "--resize", "2x1", "--shuffle", "--seed", "3"});
  ASSERT_EQ(made.exit_code, 0) << made.errors;
  const LmdbEntries found = entries_of(lmdb);
  ASSERT_EQ(found.size(), 10u);
  std::string order, sorted = "0123456789";
  for (const auto& [key, datum] : found) {
    const char name = key[key.size() - 5];
    order += name;
    const int i = name - '0';
    const std::string pixels = pixels_of(i);
    std::vector<double> grey;
    for (std::size_t k = 0; k < pixels.size(); k += 3) {
      const auto value = [&](std::size_t c) {
        return static_cast<double>(static_cast<std::uint8_t>(pixels[k + c]));
      };
      grey.push_back(std::round(0.299 * value(0) + 0.587 * value(1) + 0.114 * value(2)));
    }
    // The centre of the one row is between rows 1 and 2; those of columns between 0 and 1, 2 and 3.
    const auto at = datum.find(std::string("\x22\x02", 2));
    ASSERT_NE(at, std::string::npos);
    for (std::size_t x = 0; x < 2; ++x)
      EXPECT_NEAR(static_cast<std::uint8_t>(datum[at + 2 + x]),
                  (grey[4 + 2 * x] + grey[5 + 2 * x] + grey[8 + 2 * x] + grey[9 + 2 * x]) / 4, 0.51)
          << i;
  }
  EXPECT_NE(order, sorted);
  std::ranges::sort(order);
  EXPECT_EQ(order, sorted);
}

TEST_F(DatasetCommand, the_mean_is_that_of_all_images) {
  const std::string lmdb = folder_ / "lmdb", mean = folder_ / "mean.binaryproto";
  ASSERT_EQ(dataset({list(), lmdb}).exit_code, 0);
  const Finished made = dataset({lmdb, "--mean", mean});
  ASSERT_EQ(made.exit_code, 0) << made.errors;
  std::vector<float> planes(3 * kImageSide * kImageSide);  // blue first
  for (std::size_t at = 0; at < planes.size(); ++at) {
    double sum = 0;
    for (int i = 0; i < 10; ++i)
      sum += static_cast<std::uint8_t>(
          pixels_of(i)[3 * (at % (kImageSide * kImageSide)) + 2 - at / (kImageSide * kImageSide)]);
    planes[at] = static_cast<float>(sum / 10);
  }
  EXPECT_EQ(get(mean), caffe_number(1, 1) + caffe_number(2, 3) + caffe_number(3, kImageSide) +
                           caffe_number(4, kImageSide) + caffe_bytes(5, caffe_floats(planes)));
  const Finished again = dataset({lmdb, "--mean", mean});
  EXPECT_EQ(again.exit_code, 2);
  EXPECT_NE(again.errors.find("mean.binaryproto exists, and is not replaced"), std::string::npos)
      << again.errors;
  put(folder_ / "wide.ppm", "P6\n5 4\n255\n" + std::string(60, 'x'));
  put(folder_ / "list.txt", list_ + "wide.ppm 1\n");
  const Finished unequal = dataset({list(), "--mean", folder_ / "other.binaryproto"});
  EXPECT_EQ(unequal.exit_code, 3);
  EXPECT_NE(unequal.errors.find("wide.ppm: is 5x4x3, and images before are 4x4x3"),
            std::string::npos)
      << unequal.errors;
  EXPECT_FALSE(std::filesystem::exists(folder_ / "other.binaryproto"));
}

TEST_F(DatasetCommand, images_of_other_channels_are_not_mixed) {
  const auto of = [](int channels) {
    return datum_of(1, 2, channels, 0, std::string(static_cast<std::size_t>(2 * channels), 'x'));
  };
  write_lmdb(folder_ / "four", {{"a", of(4)}, {"b", of(4)}});
  write_lmdb(folder_ / "mixed", {{"a", of(4)}, {"b", of(1)}});
  EXPECT_EQ(dataset({folder_ / "four", folder_ / "copy"}).exit_code, 0);
  EXPECT_EQ(entries_of(folder_ / "copy").at(1).second, of(4));
  const Finished mixed = dataset({folder_ / "mixed", folder_ / "other"});
  EXPECT_EQ(mixed.exit_code, 3);
  EXPECT_NE(mixed.errors.find("mixed: 'b': has 1 channels (others have 4)"), std::string::npos)
      << mixed.errors;
}

TEST_F(DatasetCommand, files_are_stored_as_they_are) {
  const std::string file = make_plain_jpeg(4, 4, 10, 20, 30);
  put(folder_ / "a.jpg", file);
  put(folder_ / "list.txt", "a.jpg 2\n");
  ASSERT_EQ(dataset({list(), folder_ / "lmdb", "--encoded"}).exit_code, 0);
  const LmdbEntries found = entries_of(folder_ / "lmdb");
  ASSERT_EQ(found.size(), 1u);
  EXPECT_EQ(found[0].second, encoded_datum(file, 2));
  EXPECT_NE(dataset({folder_ / "lmdb"}).output.find("encoded   1"), std::string::npos);
}

TEST_F(DatasetCommand, what_is_wrong_is_refused_and_nothing_is_left) {
  const std::string lmdb = folder_ / "lmdb";
  ASSERT_EQ(dataset({list(), folder_ / "there"}).exit_code, 0);
  put(folder_ / "bad.txt", list_ + "nowhere.ppm 1\n");
  put(folder_ / "cut.ppm", "P6\n4 4\n255\nabc");
  put(folder_ / "cut.txt", "0.ppm 0\ncut.ppm 1\n");
  put(folder_ / "label.txt", "0.ppm 0\n1.ppm x\n");
  struct {
    std::vector<std::string> words;
    int code;
    std::string what;
  } const kCases[] = {
      {{list(), folder_ / "there"}, 2, "there: is there already"},
      {{folder_ / "bad.txt", lmdb}, 3, "bad.txt:11: there is no file"},
      {{folder_ / "cut.txt", lmdb}, 3, "cut.txt:2: "},
      {{folder_ / "label.txt", lmdb}, 3, "label.txt:2: "},
      {{list(), lmdb, "--encoded"}, 3, "0.ppm: is neither a JPEG nor a PNG file"},
      {{folder_ / "there", lmdb, "--encoded"}, 2, "has no image files that could be stored"},
      {{list()}, 2, "is no LMDB that could be shown"},
      {{list(), lmdb, "--resize", "4"}, 2, "is no size, as 256x256"},
      {{list(), lmdb, "--resize", "0x4"}, 2, "is no size, as 256x256"},
      {{list(), lmdb, "--resize", "4x4", "--encoded"}, 2, "--encoded stores files as they are"},
      {{list(), lmdb, "--seed", "4"}, 2, "--shuffle"},
      {{folder_ / "none.txt", lmdb}, 2, "none.txt"},
      {{list(), folder_ / "no" / "lmdb"}, 2, "cannot be made"},
      {{}, 2, "FROM"},
  };
  for (const auto& each : kCases) {
    const Finished run = dataset(each.words);
    EXPECT_EQ(run.exit_code, each.code) << run.errors;
    EXPECT_NE(run.errors.find(each.what), std::string::npos)
        << "wanted: " << each.what << "\nsaid: " << run.errors;
  }
  for (const auto& entry : std::filesystem::directory_iterator(folder_.path()))
    EXPECT_EQ(entry.path().filename().string().find("lmdb"), std::string::npos) << entry.path();
}

}  // namespace
}  // namespace omni::test
