#include "extremes.h"

#include <algorithm>
#include <cmath>

namespace traj_integrator::execution {
namespace {

constexpr long kOrders = 4;
constexpr int kHalvings = 60;

struct Polynomial {
  double c[kLargestExtremesSize];
  long size;  // degree + 1

  double at(double t) const {
    double value = 0;
    for (long k = size - 1; k >= 0; --k) value = value * t + c[k];
    return value;
  }
  Polynomial derivative() const {
    Polynomial d{{}, std::max(size - 1, 1L)};
    for (long k = 1; k < size; ++k) d.c[k - 1] = k * c[k];
    return d;
  }
  // A bound of |value - c[0]| over [0, 1].
  double reach() const {
    double sum = 0;
    for (long k = 1; k < size; ++k) sum += std::abs(c[k]);
    return sum;
  }
};

// The root of a monotone polynomial between two times at which it has different signs.
double root_between(const Polynomial& p, double low, double high) {
  double at_low = p.at(low), at_high = p.at(high), t = low;
  for (int k = 0; k < kHalvings && high - low > 1e-16; ++k) {
    // The secant, unless it is of no use; every third time the middle.
    t = k % 3 == 2 ? (low + high) / 2 : low + (high - low) * (at_low / (at_low - at_high));
    if (!(t > low && t < high)) t = (low + high) / 2;
    const double value = p.at(t);
    if (value == 0 || high - low < 1e-15) return t;
    if ((value < 0) == (at_low < 0)) {
      low = t, at_low = value;
    } else {
      high = t, at_high = value;
    }
  }
  return t;
}

// Roots within (0, 1), ascending: between the extremes of the polynomial, which are the roots of its derivative.
long roots(const Polynomial& p, double* found) {
  if (p.size < 2) return 0;
  if (std::abs(p.c[0]) > p.reach()) return 0;
  if (p.size == 2) {
    const double t = -p.c[0] / p.c[1];
    if (!(t > 0 && t < 1)) return 0;
    found[0] = t;
    return 1;
  }
  double turns[kLargestExtremesSize + 2];
  turns[0] = 0;
  const long inner = roots(p.derivative(), turns + 1);
  turns[inner + 1] = 1;
  long count = 0;
  double before = p.at(0);
  for (long k = 0; k <= inner; ++k) {
    const double after = p.at(turns[k + 1]);
    if (after == 0 && turns[k + 1] < 1) {
      found[count++] = turns[k + 1];
    } else if ((before < 0) != (after < 0) && before != 0 && after != 0) {
      found[count++] = root_between(p, turns[k], turns[k + 1]);
    }
    before = after;
  }
  return count;
}

}  // namespace

void extremes(const Pieces& motion, double* out) {
  const long dof = motion.dof;
  for (long joint = 0; joint < dof; ++joint) {
    double least[kOrders], most[kOrders];
    std::fill_n(least, kOrders, HUGE_VAL);
    std::fill_n(most, kOrders, -HUGE_VAL);
    for (long piece = 0; piece < motion.knots.count; ++piece) {
      const double step = motion.knots.step(piece);
      // In units of the piece's length: roots of similar size.
      Polynomial p{{}, motion.size};
      double power = 1;
      for (long k = 0; k < motion.size; ++k, power *= step) p.c[k] = motion.at(piece)[k * dof + joint] * power;
      double unit = 1;
      for (long order = 0; order < kOrders; ++order, unit *= step) {
        const double begin = p.c[0] / unit, end = p.at(1) / unit, reach = p.reach() / unit;
        least[order] = std::min(least[order], std::min(begin, end));
        most[order] = std::max(most[order], std::max(begin, end));
        const Polynomial slope = p.derivative();
        if (p.size > 2 && (begin + reach > most[order] || begin - reach < least[order])) {
          double turns[kLargestExtremesSize];
          const long count = roots(slope, turns);
          for (long k = 0; k < count; ++k) {
            const double value = p.at(turns[k]) / unit;
            least[order] = std::min(least[order], value);
            most[order] = std::max(most[order], value);
          }
        }
        p = slope;
      }
    }
    for (long order = 0; order < kOrders; ++order) {
      out[order * dof + joint] = least[order];
      out[(kOrders + order) * dof + joint] = most[order];
    }
  }
}

}  // namespace traj_integrator::execution
