// Writes LMDBs of Datum, as Caffe's convert_imageset does.
#pragma once

#include <gtest/gtest.h>
#include <lmdb.h>

#include <filesystem>
#include <string>
#include <utility>
#include <vector>

#include "tests/support/caffe/caffe_messages.hpp"

namespace omni::test {

using LmdbEntries = std::vector<std::pair<std::string, std::string>>;

inline void write_lmdb(const std::filesystem::path& folder, const LmdbEntries& entries) {
  std::filesystem::create_directory(folder);
  MDB_env* env = nullptr;
  MDB_txn* transaction = nullptr;
  MDB_dbi database = 0;
  ASSERT_EQ(mdb_env_create(&env), 0);
  ASSERT_EQ(mdb_env_set_mapsize(env, std::size_t{1} << 40), 0);  // as Caffe reserves it
  ASSERT_EQ(mdb_env_open(env, folder.c_str(), 0, 0664), 0);
  ASSERT_EQ(mdb_txn_begin(env, nullptr, 0, &transaction), 0);
  ASSERT_EQ(mdb_dbi_open(transaction, nullptr, 0, &database), 0);
  for (const auto& [key, value] : entries) {
    MDB_val name{key.size(), const_cast<char*>(key.data())},
        bytes{value.size(), const_cast<char*>(value.data())};
    ASSERT_EQ(mdb_put(transaction, database, &name, &bytes, 0), 0);
  }
  ASSERT_EQ(mdb_txn_commit(transaction), 0);
  mdb_env_close(env);
}

// Returns a Datum. `pixels` are channels last, with red first.
inline std::string datum_of(int height, int width, int channels, int label,
                            const std::string& pixels) {
  std::string planes;
  for (int c = 0; c < channels; ++c)
    for (int i = 0; i < height * width; ++i)
      planes += pixels[static_cast<std::size_t>(i * channels + (channels == 3 ? 2 - c : c))];
  return caffe_number(1, static_cast<std::uint64_t>(channels)) +
         caffe_number(2, static_cast<std::uint64_t>(height)) +
         caffe_number(3, static_cast<std::uint64_t>(width)) + caffe_bytes(4, planes) +
         caffe_number(5, static_cast<std::uint64_t>(label));
}
inline std::string encoded_datum(const std::string& file, int label) {
  return caffe_bytes(4, file) + caffe_number(5, static_cast<std::uint64_t>(label)) +
         caffe_number(7, 1);
}

}  // namespace omni::test
