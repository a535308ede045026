// The transforms of Winograd's convolution on one tile, for as many channels at a time as a
// register holds.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <type_traits>
#include <utility>

#if defined(__AVX512BF16__)
#include <immintrin.h>
#endif

#include "codelets/dense/bf16.hpp"

namespace omni::winograd {

#if defined(__AVX512F__)
inline constexpr int kLanes = 16;
#elif defined(__AVX__)
inline constexpr int kLanes = 8;
#else
inline constexpr int kLanes = 4;
#endif
using Lanes = float __attribute__((vector_size(4 * kLanes)));
using LanesInMemory = float __attribute__((vector_size(4 * kLanes), aligned(4), may_alias));

inline Lanes load(const float* from) { return *reinterpret_cast<const LanesInMemory*>(from); }
inline void store(float* to, Lanes values) { *reinterpret_cast<LanesInMemory*>(to) = values; }

// As bf16.
inline void store(std::uint16_t* to, Lanes values) {
#if defined(__AVX512BF16__)
  const __m256bh rounded = _mm512_cvtneps_pbh(values);
  std::memcpy(to, &rounded, sizeof rounded);
#else
  for (int i = 0; i < kLanes; ++i) to[i] = bf16_bits(values[i]);
#endif
}

// A tile of the input. With 3 taps it gives 4 outputs across, with 5 it gives 2.
inline constexpr int kIn = 6, kPlanes = kIn * kIn;
constexpr int outputs(int taps) { return kIn + 1 - taps; }

template <std::size_t rows, std::size_t columns>
using Matrix = std::array<std::array<float, columns>, rows>;

template <std::size_t rows, std::size_t columns>
constexpr Matrix<columns, rows> transposed(const Matrix<rows, columns>& matrix) {
  Matrix<columns, rows> result{};
  for (std::size_t i = 0; i < rows; ++i)
    for (std::size_t j = 0; j < columns; ++j) result[j][i] = matrix[i][j];
  return result;
}

// The transforms are those of polynomials' values at these points and at infinity. With 1 and 2
// their matrices have simpler numbers, but errors are twice as large.
inline constexpr std::array<double, kIn - 1> kPoints{0, 0.75, -0.75, 1.5, -1.5};

// Coefficients of the product of (x - point) for all points but one; for all with kIn - 1.
constexpr std::array<double, kIn> product_of_roots(std::size_t without) {
  std::array<double, kIn> coefficients{1};
  for (std::size_t i = 0; i < kPoints.size(); ++i) {
    if (i == without) continue;
    for (std::size_t j = kIn - 1; j > 0; --j)
      coefficients[j] = coefficients[j - 1] - kPoints[i] * coefficients[j];
    coefficients[0] *= -kPoints[i];
  }
  return coefficients;
}

constexpr Matrix<kIn, kIn> input_matrix() {
  Matrix<kIn, kIn> result{};
  for (std::size_t i = 0; i < kIn; ++i) {
    const auto row = product_of_roots(i);
    for (std::size_t j = 0; j < kIn; ++j) result[i][j] = static_cast<float>(row[j]);
  }
  return result;
}
inline constexpr Matrix<kIn, kIn> kInput = input_matrix();

// A row of powers for each point, the highest alone for infinity.
template <std::size_t powers>
constexpr Matrix<kIn, powers> values_at_points() {
  Matrix<kIn, powers> result{};
  for (std::size_t i = 0; i < kPoints.size(); ++i) {
    double power = 1;
    for (std::size_t j = 0; j < powers; ++j, power *= kPoints[i])
      result[i][j] = static_cast<float>(power);
  }
  result[kIn - 1][powers - 1] = 1;
  return result;
}

// Divided by what the inputs' polynomial of the same point is there.
template <std::size_t taps>
constexpr Matrix<kIn, taps> scaled_values_at_points() {
  auto result = values_at_points<taps>();
  for (std::size_t i = 0; i < kPoints.size(); ++i) {
    double divisor = 1;
    for (std::size_t j = 0; j < kPoints.size(); ++j)
      if (j != i) divisor *= kPoints[i] - kPoints[j];
    double power = 1;
    for (std::size_t j = 0; j < taps; ++j, power *= kPoints[i])
      result[i][j] = static_cast<float>(power / divisor);
  }
  return result;
}

template <int taps>
inline constexpr auto kKernel = scaled_values_at_points<taps>();
template <int taps>
inline constexpr auto kKernelTransposed = transposed(kKernel<taps>);
template <int taps>
inline constexpr auto kOutputTransposed = values_at_points<outputs(taps)>();
template <int taps>
inline constexpr auto kOutput = transposed(kOutputTransposed<taps>);

// The sum of matrix[row][i] * x[i] over the i that `selects`, without the products by zero.
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

// put(row, values) for all rows of matrix * x. Of a point and its negative the even powers are
// equal and the odd ones opposite.
template <const auto& matrix, class Put>
void multiply(const Lanes* x, Put put) {
  constexpr auto all = [](std::size_t) { return true; };
  if constexpr (matrix.size() == kIn) {  // a row for each point
    constexpr auto is_even = [](std::size_t i) { return i % 2 == 0; };
    constexpr auto is_odd = [](std::size_t i) { return i % 2 == 1; };
    const auto pair = [&]<std::size_t row>(std::integral_constant<std::size_t, row>) {
      const Lanes even = sum_of_products<matrix, row, is_even>(x);
      const Lanes odd = sum_of_products<matrix, row, is_odd>(x);
      put(row, even + odd);
      put(row + 1, even - odd);
    };
    put(0, sum_of_products<matrix, 0, all>(x));
    pair(std::integral_constant<std::size_t, 1>());
    pair(std::integral_constant<std::size_t, 3>());
    put(5, sum_of_products<matrix, 5, all>(x));
  } else {  // a column for each point
    constexpr auto is_first = [](std::size_t i) { return i != 2 && i != 4; };  // of a pair
    const Lanes even[] = {x[0], x[1] + x[2], {}, x[3] + x[4], {}, x[5]};
    const Lanes odd[] = {x[0], x[1] - x[2], {}, x[3] - x[4], {}, x[5]};
    [&]<std::size_t... row>(std::index_sequence<row...>) {
      (put(row, sum_of_products<matrix, row, is_first>(row % 2 == 0 ? even : odd)), ...);
    }
    (std::make_index_sequence<matrix.size()>());
  }
}

// matrix * tile * matrix'; in(i) gives the tile's values, out(i, values) takes the result's.
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
