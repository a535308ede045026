// These functions compute the transforms of Winograd's convolution on one tile, for as many
// channels as a register holds.
#pragma once

#include <array>
#include <cstddef>
#include <utility>

#if defined(__AVX512BF16__)
#include <immintrin.h>
#endif

#include "codelets/spatial/channel_chunks.hpp"

namespace omni::winograd {

inline constexpr int kLanes = kWidestPack;
using Lanes = Pack<float, kLanes>::Type;

inline Lanes load(const float* from) { return load_floats<kLanes>(from); }
void store(auto* to, Lanes values) {
#if defined(__AVX512BF16__)
  if constexpr (!std::is_same_v<decltype(to), float*>)
    return store_pack(to, _mm512_cvtneps_pbh(values));
#endif
  store_floats<kLanes>(to, values);
}

// Returns how many outputs a tile with `in` inputs has per dimension.
constexpr int outputs(int in, int taps) { return in + 1 - taps; }

template <std::size_t rows, std::size_t columns>
using Matrix = std::array<std::array<float, columns>, rows>;

template <std::size_t rows, std::size_t columns>
constexpr Matrix<columns, rows> transposed(const Matrix<rows, columns>& matrix) {
  Matrix<columns, rows> result{};
  for (std::size_t i = 0; i < rows; ++i)
    for (std::size_t j = 0; j < columns; ++j) result[j][i] = matrix[i][j];
  return result;
}

// The transforms evaluate polynomials at these points and at infinity. The points determine the
// size of rounding errors: for tiles of 6, the points 1 and 2 would double them.
template <int in>
struct Points;
template <>
struct Points<6> {
  static constexpr std::array<double, 5> values{0, 0.75, -0.75, 1.5, -1.5};
};
template <>
struct Points<8> {
  static constexpr std::array<double, 7> values{0, 0.5, -0.5, 1, -1, 2, -2};
};

// Returns the coefficients of the product of (x - point) over all points except number `without`.
// If `without` is in - 1, the product is over all points.
template <int in>
constexpr std::array<double, in> product_of_roots(std::size_t without) {
  std::array<double, in> coefficients{1};
  for (std::size_t i = 0; i + 1 < in; ++i) {
    if (i == without) continue;
    for (std::size_t j = in - 1; j > 0; --j)
      coefficients[j] = coefficients[j - 1] - Points<in>::values[i] * coefficients[j];
    coefficients[0] *= -Points<in>::values[i];
  }
  return coefficients;
}

template <int in>
constexpr Matrix<in, in> input_matrix() {
  Matrix<in, in> result{};
  for (std::size_t i = 0; i < in; ++i) {
    const auto row = product_of_roots<in>(i);
    for (std::size_t j = 0; j < in; ++j) result[i][j] = static_cast<float>(row[j]);
  }
  return result;
}

// Returns a row of powers for each point. The row for infinity has only the highest power.
template <int in, std::size_t powers>
constexpr Matrix<in, powers> values_at_points() {
  Matrix<in, powers> result{};
  for (std::size_t i = 0; i + 1 < in; ++i) {
    double power = 1;
    for (std::size_t j = 0; j < powers; ++j, power *= Points<in>::values[i])
      result[i][j] = static_cast<float>(power);
  }
  result[in - 1][powers - 1] = 1;
  return result;
}

// Returns the rows of values_at_points(), each divided by the value at its point of the point's row
// in input_matrix().
template <int in, std::size_t taps>
constexpr Matrix<in, taps> scaled_values_at_points() {
  constexpr auto& points = Points<in>::values;
  auto result = values_at_points<in, taps>();
  for (std::size_t i = 0; i < points.size(); ++i) {
    double divisor = 1;
    for (std::size_t j = 0; j < points.size(); ++j)
      if (j != i) divisor *= points[i] - points[j];
    double power = 1;
    for (std::size_t j = 0; j < taps; ++j, power *= points[i])
      result[i][j] = static_cast<float>(power / divisor);
  }
  return result;
}

template <int in>
inline constexpr auto kInput = input_matrix<in>();
template <int in, int taps>
inline constexpr auto kKernel = scaled_values_at_points<in, taps>();
template <int in, int taps>
inline constexpr auto kKernelTransposed = transposed(kKernel<in, taps>);
template <int in, int taps>
inline constexpr auto kOutputTransposed = values_at_points<in, outputs(in, taps)>();
template <int in, int taps>
inline constexpr auto kOutput = transposed(kOutputTransposed<in, taps>);

// Returns the sum of matrix[row][i] * x[i] over all i for which `selects` is true. Leaves out
// products by zero.
template <const auto& matrix, std::size_t row, auto selects>
Lanes sum_of_products(const Lanes* x) {
  constexpr std::size_t columns = matrix[0].size();
  constexpr auto is_used = [](std::size_t i) { return selects(i) && matrix[row][i] != 0; };
  constexpr std::size_t first = [=] {
    std::size_t i = 0;
    while (i < columns && !is_used(i)) ++i;
    return i;
  }();
  Lanes sum{};
  [&]<std::size_t... i>(std::index_sequence<i...>) {
    (
        [&] {
          if constexpr (i == first)
            sum = matrix[row][i] * x[i];
          else if constexpr (is_used(i))
            sum += matrix[row][i] * x[i];
        }(),
        ...);
  }
  (std::make_index_sequence<columns>());
  return sum;
}

// Calls put(row, values) for all rows of matrix * x. A point and its negative are neighbours. Their
// even powers are equal and their odd powers are opposite, so sums are shared.
template <const auto& matrix, class Put>
void multiply(const Lanes* x, Put put) {
  constexpr auto all = [](std::size_t) { return true; };
  constexpr std::size_t rows = matrix.size(), columns = matrix[0].size();
  if constexpr (rows >= columns) {  // a row for each point
    constexpr auto is_even = [](std::size_t i) { return i % 2 == 0; };
    constexpr auto is_odd = [](std::size_t i) { return i % 2 == 1; };
    put(0, sum_of_products<matrix, 0, all>(x));
    [&]<std::size_t... pair>(std::index_sequence<pair...>) {
      (
          [&] {
            constexpr std::size_t row = 2 * pair + 1;
            const Lanes even = sum_of_products<matrix, row, is_even>(x);
            const Lanes odd = sum_of_products<matrix, row, is_odd>(x);
            put(row, even + odd);
            put(row + 1, even - odd);
          }(),
          ...);
    }
    (std::make_index_sequence<rows / 2 - 1>());
    put(rows - 1, sum_of_products<matrix, rows - 1, all>(x));
  } else {  // a column for each point
    constexpr auto once = [](std::size_t i) { return i == 0 || i % 2 == 1; };
    Lanes even[columns], odd[columns];
    even[0] = odd[0] = x[0];
    even[columns - 1] = odd[columns - 1] = x[columns - 1];
    for (std::size_t i = 1; i + 1 < columns; i += 2) {
      even[i] = x[i] + x[i + 1];
      odd[i] = x[i] - x[i + 1];
    }
    [&]<std::size_t... row>(std::index_sequence<row...>) {
      (put(row, sum_of_products<matrix, row, once>(row % 2 == 0 ? even : odd)), ...);
    }
    (std::make_index_sequence<rows>());
  }
}

// Computes matrix * tile * matrix'. in(i) returns the tile's values, and out(i, values) stores the
// result's values.
template <const auto& matrix, class In, class Out>
void transform(In in, Out out) {
  constexpr std::size_t rows = matrix.size(), columns = matrix[0].size();
  Lanes half[rows * columns];
  for (std::size_t j = 0; j < columns; ++j) {
    Lanes column[columns];
    for (std::size_t i = 0; i < columns; ++i) column[i] = in(i * columns + j);
    multiply<matrix>(column,
                     [&](std::size_t row, Lanes values) { half[row * columns + j] = values; });
  }
  for (std::size_t i = 0; i < rows; ++i)
    multiply<matrix>(&half[i * columns],
                     [&](std::size_t row, Lanes values) { out(i * rows + row, values); });
}

}  // namespace omni::winograd
