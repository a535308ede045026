// These tests write and read safetensors files, compare them with the reference implementation's,
// and read files that are wrong in many ways.
#include "layers/formats/safetensors.hpp"

#include <gtest/gtest.h>

#include <algorithm>
#include <bit>
#include <cstring>
#include <fstream>
#include <limits>
#include <random>

#include "tests/support/temporary_directory.hpp"

namespace omni {
namespace {

using namespace std::string_literals;

Result<Safetensors> parse_tensors(std::string_view bytes) {
  std::size_t position = 0;
  const auto source = [&](std::span<std::byte> block) -> Status {
    EXPECT_LE(block.size(), bytes.size() - position) << "reads past the promised end";
    std::memcpy(block.data(), bytes.data() + position, block.size());
    position += block.size();
    return {};
  };
  return read_safetensors(source, bytes.size(), "f.safetensors");
}

Result<std::string> compose(std::span<const NamedArray> arrays, const Metadata& metadata) {
  std::string bytes;
  OMNI_CHECK(write_safetensors(
      [&](std::span<const std::byte> block) {
        bytes.append(reinterpret_cast<const char*>(block.data()), block.size());
        return Status();
      },
      arrays, metadata));
  return bytes;
}

std::string file_of(std::string_view header, std::size_t data_bytes) {
  const std::uint64_t length = header.size();
  std::string bytes(reinterpret_cast<const char*>(&length), sizeof length);
  return bytes.append(header).append(data_bytes, '\0');
}

const std::vector<float> kValues = {
    1.5f,  -0.f, std::numeric_limits<float>::denorm_min(), std::numeric_limits<float>::infinity(),
    3e38f, 7};

std::vector<NamedArray> sample() {
  const std::span<const float> values(kValues);
  return {{"z", {2, 3}, values},
          {"scalar", {}, values.first(1)},
          {"none", {0, 5}, {}},
          {"layer \"é\"/1", {1, 1, 2}, values.subspan(3, 2)}};
}

TEST(Safetensors, RoundTripIsBitEqual) {
  const Metadata metadata = {{"step", "12"}, {"odd", "\n\"\\ é \x01"}, {"", ""}};
  const test::TemporaryDirectory folder;
  const auto written = compose(sample(), metadata);
  ASSERT_TRUE(written);
  std::ofstream(folder / "a", std::ios::binary) << *written;
  const auto back = read_safetensors(folder / "a");
  ASSERT_TRUE(back) << back.error().message();
  EXPECT_EQ(back->metadata(), metadata);
  ASSERT_EQ(back->arrays().size(), 4u);
  for (const NamedArray& array : sample()) {
    const NamedArray* read = back->find(array.name);
    ASSERT_NE(read, nullptr) << array.name;
    EXPECT_EQ(read->shape, array.shape);
    ASSERT_EQ(read->values.size(), array.values.size());
    EXPECT_TRUE(std::ranges::equal(read->values, array.values, {},
                                   std::bit_cast<std::uint32_t, float>,
                                   std::bit_cast<std::uint32_t, float>));
  }
  EXPECT_EQ(back->find("absent"), nullptr);
}

TEST(Safetensors, NothingAtAllIsAFileToo) {
  const auto bytes = compose({}, {});
  ASSERT_TRUE(bytes);
  const auto back = parse_tensors(*bytes);
  ASSERT_TRUE(back) << back.error().message();
  EXPECT_TRUE(back->arrays().empty());
}

TEST(Safetensors, DataIsAligned) {
  for (std::size_t length = 1; length < 9; ++length) {
    const std::vector<NamedArray> arrays = {{std::string(length, 'n'), {6}, kValues}};
    const auto bytes = compose(arrays, {});
    ASSERT_TRUE(bytes);
    EXPECT_EQ((bytes->size() - 6 * sizeof(float)) % 8, 0u);
  }
}

// safetensors 0.4 for Python wrote this: {"b": [[1.5, -2]], "a": 3.25}, metadata {"k": "v"}.
TEST(Safetensors, ReadsWhatTheReferenceWrites) {
  const auto file = parse_tensors(
      "\x88\0\0\0\0\0\0\0"
      R"({"__metadata__":{"k":"v"},"a":{"dtype":"F32","shape":[],"data_offsets":[0,4]},)"
      R"("b":{"dtype":"F32","shape":[1,2],"data_offsets":[4,12]}}  )"
      "\0\0P@\0\0\xc0?\0\0\0\xc0"s);
  ASSERT_TRUE(file) << file.error().message();
  EXPECT_EQ(file->metadata().at("k"), "v");
  EXPECT_EQ(file->find("a")->values[0], 3.25f);
  EXPECT_EQ(file->find("b")->shape, (std::vector<std::int64_t>{1, 2}));
  EXPECT_EQ(file->find("b")->values[1], -2.f);
}

TEST(Safetensors, WritingRefusesWhatCouldNotBeReadBack) {
  const std::span<const float> values(kValues);
  const auto refusal = [](std::vector<NamedArray> arrays, const Metadata& metadata) {
    const auto bytes = compose(arrays, metadata);
    return bytes ? "" : bytes.error().what;
  };
  EXPECT_EQ(refusal({{"a", {5}, values}}, {}), "'a' has 6 values, its shape needs 5");
  EXPECT_EQ(refusal({{"a", {-6}, values}}, {}), "'a' has an impossible shape");
  EXPECT_EQ(refusal({{"a", {1LL << 62, 1LL << 62}, values}}, {}), "'a' has an impossible shape");
  EXPECT_EQ(refusal({{"a", {6}, values}, {"a", {6}, values}}, {}), "the name 'a' is taken");
  EXPECT_EQ(refusal({{"__metadata__", {6}, values}}, {}), "the name '__metadata__' is taken");
  EXPECT_EQ(refusal({{"\xff", {6}, values}}, {}), "a name or a metadata text is not UTF-8");
  EXPECT_EQ(refusal({}, {{"k", "\xff"}}), "a name or a metadata text is not UTF-8");
}

struct Wrong {
  std::string bytes;
  std::string_view text;  // part of the message
};

std::string tensor(std::string_view fields, std::size_t data_bytes) {
  return file_of(R"({"a":{)" + std::string(fields) + "}}", data_bytes);
}

TEST(Safetensors, EveryDamageIsNamed) {
  const std::string good = R"("dtype":"F32","shape":[2],"data_offsets":[0,8])";
  ASSERT_TRUE(parse_tensors(tensor(good, 8)));
  const std::vector<Wrong> cases = {
      {"", "0 bytes are too few"},
      {"1234567", "7 bytes are too few"},
      {"\x01\0\0\0\0\0\0\0"s, "claims a header of 1 bytes, only 0 follow"},
      {"\x81\x96\x98\0\0\0\0\0{}"s, "claims a header of 10000001 bytes, at most 10000000"},
      {std::string(8, '\xff') + "{}", "at most 10000000 are accepted"},
      {file_of("", 0), "does not begin with '{'"},
      {file_of(" {}", 0), "does not begin with '{'"},
      {file_of("[]", 0), "does not begin with '{'"},
      {file_of("{", 0), "not valid JSON at byte"},
      {file_of("{}}", 0), "not valid JSON at byte"},
      {file_of("{\"\xff\":1}", 0), "not valid JSON at byte"},
      {file_of("{}\0"s, 0), "not valid JSON at byte"},
      {file_of("{}", 4), "0 bytes of arrays, but 4 bytes of data follow"},
      {tensor(good, 7), "8 bytes of arrays, but 7 bytes of data follow"},
      {tensor(good, 9), "8 bytes of arrays, but 9 bytes of data follow"},
      {file_of("{\"a\":{" + good + "},\"a\":{" + good + "}}", 8), "a name appears twice, in 'a'"},
      {file_of(R"({"__metadata__":{},"__metadata__":{}})", 0), "a name appears twice"},
      {file_of(R"({"__metadata__":{"k":"","k":""}})", 0), "the key 'k' appears twice"},
      {file_of(R"({"__metadata__":{"k":1}})", 0), "a number where none belongs"},
      {file_of(R"({"__metadata__":{"k":{}}})", 0), "an object where none belongs"},
      {file_of(R"({"__metadata__":"k"})", 0), "a text where none belongs"},
      {file_of(R"({"a":1})", 0), "a number where none belongs"},
      {file_of(R"({"a":null})", 0), "null where a value belongs"},
      {file_of(R"({"a":true})", 0), "true or false where"},
      {file_of(R"({"a":[]})", 0), "a list where none belongs"},
      {file_of("{\"a\":" + std::string(100000, '['), 0), "a list where none belongs"},
      {tensor("", 0), "a tensor needs dtype, shape and data_offsets, in 'a'"},
      {tensor(R"("dtype":"F32","shape":[2])", 8), "a tensor needs dtype, shape and data_offsets"},
      {tensor(good + R"(,"dtype":"F32")", 8), "dtype appears twice"},
      {tensor(good + R"(,"shape":[2])", 8), "shape appears twice"},
      {tensor(good + R"(,"extra":1)", 8), "unknown key 'extra'"},
      {tensor(R"("dtype":"F16","shape":[4],"data_offsets":[0,8])", 8),
       "'a' has the type 'F16', only F32 is read"},
      {tensor(R"("dtype":"F99","shape":[2],"data_offsets":[0,8])", 8),
       "'a' has the unknown type 'F99', only F32 is read"},
      {tensor(R"("dtype":3,"shape":[2],"data_offsets":[0,8])", 8), "a number where none belongs"},
      {tensor(R"("dtype":"F32","shape":2,"data_offsets":[0,8])", 8), "a number where none belongs"},
      {tensor(R"("dtype":"F32","shape":["2"],"data_offsets":[0,8])", 8), "a text where none"},
      {tensor(R"("dtype":"F32","shape":[[2]],"data_offsets":[0,8])", 8), "a list where none"},
      {tensor(R"("dtype":"F32","shape":[-2],"data_offsets":[0,8])", 8), "a negative number"},
      {tensor(R"("dtype":"F32","shape":[2.0],"data_offsets":[0,8])", 8), "a fractional number"},
      {tensor(R"("dtype":"F32","shape":[9223372036854775808],"data_offsets":[0,8])", 8),
       "a dimension is too large"},
      {tensor(R"("dtype":"F32","shape":[99999999999999999999],"data_offsets":[0,8])", 8),
       "a fractional number"},
      {tensor(R"("dtype":"F32","shape":[4611686018427387904],"data_offsets":[0,0])", 0),
       "the shape of 'a' overflows"},
      {tensor(R"("dtype":"F32","shape":[4294967296,4294967296],"data_offsets":[0,0])", 0),
       "the shape of 'a' overflows"},
      {tensor(R"("dtype":"F32","shape":[2],"data_offsets":[0])", 8), "needs two numbers"},
      {tensor(R"("dtype":"F32","shape":[2],"data_offsets":[0,8,8])", 8), "needs two numbers"},
      {tensor(R"("dtype":"F32","shape":[2],"data_offsets":[0,4])", 8),
       "'a' needs 8 bytes for its shape, its data_offsets are 0 to 4"},
      {tensor(R"("dtype":"F32","shape":[0],"data_offsets":[0,18446744073709551608])", 8),
       "'a' needs 0 bytes for its shape"},
      {tensor(R"("dtype":"F32","shape":[2],"data_offsets":[8,0])", 8), "'a' begins at byte 8"},
      {tensor(R"("dtype":"F32","shape":[2],"data_offsets":[4,12])", 12),
       "'a' begins at byte 4 of the data, 0 expected: the arrays overlap or leave a hole"},
      {file_of("{\"a\":{" + good + R"(},"b":{"dtype":"F32","shape":[2],"data_offsets":[4,12]}})",
               12),
       "'b' begins at byte 4 of the data, 8 expected"},
      {file_of("{\"a\":{" + good + R"(},"b":{"dtype":"F32","shape":[1],"data_offsets":[12,16]}})",
               16),
       "'b' begins at byte 12 of the data, 8 expected"},
      {file_of(R"({"\u001b[31m)" + std::string(200, 'x') + R"(":{}})", 0), "'\\x1b[31mxxx"},
  };
  for (const Wrong& wrong : cases) {
    const auto file = parse_tensors(wrong.bytes);
    ASSERT_FALSE(file) << wrong.text;
    EXPECT_EQ(file.error().kind, ErrorKind::data);
    EXPECT_EQ(file.error().where, "f.safetensors");
    EXPECT_NE(file.error().what.find(wrong.text), std::string::npos)
        << file.error().what << "\n  expected: " << wrong.text;
    EXPECT_EQ(file.error().what.find('\x1b'), std::string::npos);
  }
}

TEST(Safetensors, EveryTruncationIsRefused) {
  const auto bytes = compose(sample(), {{"k", "v"}});
  ASSERT_TRUE(bytes);
  for (std::size_t length = 0; length < bytes->size(); ++length)
    EXPECT_FALSE(parse_tensors(bytes->substr(0, length))) << length;
  EXPECT_FALSE(parse_tensors(*bytes + '\0'));
}

// Without a checksum, a flipped value is not noticed. But the tensors of every accepted file must
// lie within the file.
TEST(Safetensors, BitFlipsNeverLeadOutsideTheFile) {
  const auto bytes = compose(sample(), {{"k", "v"}});
  ASSERT_TRUE(bytes);
  std::mt19937 random(7);
  int refused = 0;
  for (int round = 0; round < 2000; ++round) {
    std::string damaged = *bytes;
    const std::size_t bit = random() % (damaged.size() * 8);
    damaged[bit / 8] = static_cast<char>(damaged[bit / 8] ^ (1 << bit % 8));
    const auto file = parse_tensors(damaged);
    if (!file) {
      ++refused;
      continue;
    }
    std::size_t count = 0;
    for (const NamedArray& array : file->arrays()) count += array.values.size();
    EXPECT_EQ(count, 9u);
  }
  EXPECT_GT(refused, 1000);
}

TEST(Safetensors, FailingSinksAndSourcesArePassedOn) {
  const Error broken{ErrorKind::failed, "disk", "is on fire", ""};
  const auto bytes = compose(sample(), {});
  ASSERT_TRUE(bytes);
  for (int good_calls = 0; good_calls < 3; ++good_calls) {
    int left = good_calls;
    const Status written = write_safetensors(
        [&](std::span<const std::byte>) { return left-- > 0 ? Status() : Status(broken); },
        sample(), {});
    ASSERT_FALSE(written);
    EXPECT_EQ(written.error().what, broken.what);

    left = good_calls;
    std::size_t position = 0;
    const auto source = [&](std::span<std::byte> block) -> Status {
      if (left-- == 0) return broken;
      std::memcpy(block.data(), bytes->data() + position, block.size());
      position += block.size();
      return {};
    };
    const auto file = read_safetensors(source, bytes->size(), "f");
    ASSERT_FALSE(file);
    EXPECT_EQ(file.error().what, broken.what);
  }
}

}  // namespace
}  // namespace omni
