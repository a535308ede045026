#include "codelets/dense/column_parts.hpp"

#include "tests/gradcheck/harness.hpp"

namespace omni::gradcheck {
namespace {

constexpr int kMoreRows = 2;  // of the parts, before and after the slice

template <class T>
std::vector<T*> parts_of(const Buffers& buffers, int count) {
  std::vector<T*> parts;
  for (int i = 1; i <= count; ++i)
    parts.push_back(buffers.get<double>(static_cast<std::size_t>(i)));
  return parts;
}

std::size_t matrix(const ColumnPartsArgs& args) {
  return static_cast<std::size_t>(args.rows) * static_cast<std::size_t>(args.columns);
}
std::size_t part(const ColumnPartsArgs& args, int number) {
  return static_cast<std::size_t>(args.first_row + args.rows + kMoreRows) *
         static_cast<std::size_t>(args.width_of(number));
}

const std::vector<Case<ColumnPartsArgs>> kCases{
    {"one value", {.rows = 1, .columns = 1, .width = 1}},
    {"one part, rows in the middle", {.rows = 3, .first_row = 2, .columns = 7, .width = 7}},
    {"equal parts", {.rows = 4, .columns = 12, .width = 4}},
    {"a shorter last part", {.rows = 3, .first_row = 5, .columns = 37, .width = 16}},
    {"many parts of one column", {.rows = 2, .first_row = 1, .columns = 8, .width = 1}}};

TEST(ColumnParts, joined) {
  check_implementations(
      join_columns, kCases,
      Operation<ColumnPartsArgs>{.operands =
                                     [](const ColumnPartsArgs& args) {
                                       std::vector<Operand> all{output(matrix(args))};
                                       for (int i = 0; i < args.parts(); ++i)
                                         all.push_back(input(part(args, i)));
                                       return all;
                                     },
                                 .reference =
                                     [](const ColumnPartsArgs& args, const Buffers& buffers) {
                                       reference::join_columns<double>(
                                           args, parts_of<const double>(buffers, args.parts()),
                                           buffers.get<double>(0));
                                     },
                                 .tolerance = 0});
}

TEST(ColumnParts, dealt_leaving_other_rows_alone) {
  check_implementations(
      split_columns, kCases,
      Operation<ColumnPartsArgs>{.operands =
                                     [](const ColumnPartsArgs& args) {
                                       std::vector<Operand> all{input(matrix(args))};
                                       for (int i = 0; i < args.parts(); ++i)
                                         all.push_back(accumulated(part(args, i)));
                                       return all;
                                     },
                                 .reference =
                                     [](const ColumnPartsArgs& args, const Buffers& buffers) {
                                       reference::split_columns<double>(
                                           args, buffers.get<double>(0),
                                           parts_of<double>(buffers, args.parts()));
                                     },
                                 .tolerance = 0});
}

TEST(ColumnParts, summed) {
  check_implementations(
      sum_parts,
      {{"one value", {.rows = 1, .columns = 1, .parts = 1}},
       {"rows in the middle", {.rows = 3, .first_row = 2, .columns = 7, .parts = 3}},
       {"longer than a block", {.rows = 3, .first_row = 1, .columns = 1999, .parts = 8}}},
      Operation<SumPartsArgs>{
          .operands =
              [](const SumPartsArgs& args) {
                const auto columns = static_cast<std::size_t>(args.columns);
                std::vector<Operand> all{output(static_cast<std::size_t>(args.rows) * columns)};
                for (int i = 0; i < args.parts; ++i)
                  all.push_back(input(
                      static_cast<std::size_t>(args.first_row + args.rows + kMoreRows) * columns));
                return all;
              },
          .reference =
              [](const SumPartsArgs& args, const Buffers& buffers) {
                reference::sum_parts<double>(args, parts_of<const double>(buffers, args.parts),
                                             buffers.get<double>(0));
              },
          .terms = [](const SumPartsArgs& args) { return double(args.parts); }});
}

TEST(ColumnParts, hand_computed) {
  const ColumnPartsArgs args{.rows = 1, .first_row = 1, .columns = 3, .width = 2};
  const std::vector<double> src{1, 2, 3};
  std::vector<double> left(4, 0), right(2, 0), joined(3);
  reference::split_columns<double>(args, src.data(),
                                   std::vector<double*>{left.data(), right.data()});
  EXPECT_EQ(left, (std::vector<double>{0, 0, 1, 2}));
  EXPECT_EQ(right, (std::vector<double>{0, 3}));
  reference::join_columns<double>(args, std::vector<const double*>{left.data(), right.data()},
                                  joined.data());
  EXPECT_EQ(joined, src);
  std::vector<double> sum(1);
  reference::sum_parts<double>({.rows = 1, .first_row = 1, .columns = 1, .parts = 2},
                               std::vector<const double*>{left.data(), right.data()}, sum.data());
  EXPECT_EQ(sum, (std::vector<double>{3}));
}

}  // namespace
}  // namespace omni::gradcheck
