// These functions compute how fast asynchronous gradient descent with momentum converges on a
// quadratic on average. Staleness is geometric (Mitliagkas et al., theorem 7).
#pragma once

#include <algorithm>
#include <cmath>
#include <complex>

namespace omni::test {

using Complex = std::complex<double>;

// Returns the magnitude of the largest root of x^3 - z x^2 + p x - q. The roots are the modes of
// one eigenvalue.
inline double largest_root(double z, double p, double q) {
  // The Durand-Kerner iteration finds three roots at the same time, from start values that are not
  // symmetric.
  Complex roots[3] = {{1, 0}, {0.4, 0.9}, {-0.65, 0.72}};
  const auto value = [&](Complex x) { return ((x - z) * x + p) * x - q; };
  for (int iteration = 0; iteration < 200; ++iteration) {
    double change = 0;
    for (int i = 0; i < 3; ++i) {
      Complex others = 1;
      for (int j = 0; j < 3; ++j)
        if (j != i) others *= roots[i] - roots[j];
      if (std::abs(others) < 1e-30) others = 1e-30;
      const Complex step = value(roots[i]) / others;
      roots[i] -= step;
      change = std::max(change, std::abs(step));
    }
    if (change < 1e-12) break;
  }
  return std::max({std::abs(roots[0]), std::abs(roots[1]), std::abs(roots[2])});
}

// Returns the factor by which the mean error shrinks per update. The largest factor of the
// eigenvalues 1 and 1/condition counts. `step` is the learning rate.
inline double contraction(double condition, double implicit, double explicit_part, double step) {
  double worst = 0;
  for (const double eigenvalue : {1.0, 1 / condition})
    worst = std::max(worst,
                     largest_root(1 + implicit + explicit_part - step * (1 - implicit) * eigenvalue,
                                  implicit + explicit_part + implicit * explicit_part,
                                  implicit * explicit_part));
  return worst;
}

// Returns the minimum point of a function of one variable that has only one local minimum.
template <class Function>
double least(Function f, double low, double high) {
  constexpr double kGolden = 0.6180339887498949;
  double a = high - kGolden * (high - low), b = low + kGolden * (high - low);
  double fa = f(a), fb = f(b);
  while (high - low > 1e-5) {
    if (fa < fb) {
      high = b;
      b = a;
      fb = fa;
      fa = f(a = high - kGolden * (high - low));
    } else {
      low = a;
      a = b;
      fa = fb;
      fb = f(b = low + kGolden * (high - low));
    }
  }
  return (low + high) / 2;
}

struct BestMomentum {
  double explicit_part = 0, step = 0, contraction = 1;
};

// Returns the contraction with this explicit momentum and the best learning rate.
inline BestMomentum best_step(double condition, double implicit, double explicit_part) {
  const auto at = [&](double logarithm) {
    return contraction(condition, implicit, explicit_part, std::exp(logarithm));
  };
  const double step = least(at, std::log(1e-2), std::log(4 / (1 - implicit)));
  return {explicit_part, std::exp(step), at(step)};
}

// Returns the explicit momentum that converges fastest, each with its best learning rate.
inline BestMomentum best_momentum(double condition, double implicit) {
  const auto at = [&](double part) { return best_step(condition, implicit, part).contraction; };
  // The function may have two local minima, so a coarse search comes first.
  double best = -0.95;
  for (double part = -0.95; part < 1; part += 0.05)
    if (at(part) < at(best)) best = part;
  const double part = least(at, best - 0.05, std::min(best + 0.05, 0.9999));
  return best_step(condition, implicit, part);
}

}  // namespace omni::test
