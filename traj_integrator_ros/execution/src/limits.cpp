#include "limits.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <vector>

namespace traj_integrator::execution {
namespace {

constexpr long kOrders = 4;

// Quick bounds: how far each derivative can be from 0, and the position from the beginning of its piece.
bool is_far_from_bounds(const Pieces& motion, const double* lows, const double* highs) {
  const long dof = motion.dof, size = motion.size;
  double longest = 0;
  for (long piece = 0; piece < motion.knots.count; ++piece) longest = std::max(longest, motion.knots.step(piece));
  std::vector<double> most(size * dof, 0.0), first(2 * dof);
  std::copy_n(motion.at(0), dof, first.begin());
  std::copy_n(motion.at(0), dof, first.begin() + dof);
  for (long piece = 0; piece < motion.knots.count; ++piece) {
    const double* c = motion.at(piece);
    for (long d = 0; d < dof; ++d) {
      first[d] = std::min(first[d], c[d]);
      first[dof + d] = std::max(first[dof + d], c[d]);
    }
    for (long i = dof; i < size * dof; ++i) most[i] = std::max(most[i], std::fabs(c[i]));
  }
  for (long order = 0; order < kOrders; ++order) {
    for (long d = 0; d < dof; ++d) {
      double reach = 0;
      for (long k = size - 1; k >= std::max(order, 1L); --k) {
        double factor = 1;
        for (long i = 0; i < order; ++i) factor *= static_cast<double>(k - i);
        reach = reach * longest + factor * most[k * dof + d];
      }
      if (order == 0) {
        reach *= longest;
        if (first[dof + d] + reach > highs[d] || first[d] - reach < lows[d]) return false;
      } else if (reach > highs[order * dof + d]) {  // these have the same bounds on both sides
        return false;
      }
    }
  }
  return true;
}

constexpr long kLanes = 8;

// Joints are processed side by side, as many as fit, for any number of joints.
struct Lanes {
  double of[kLanes];

  void take(const double* from, long count, double factor) {
    for (long i = 0; i < kLanes; ++i) of[i] = 0;
    for (long i = 0; i < count; ++i) of[i] = from[i] * factor;
  }
  void add(const Lanes& other) {
    for (long i = 0; i < kLanes; ++i) of[i] += other.of[i];
  }
  void raise_to(const Lanes& other) {
    for (long i = 0; i < kLanes; ++i) of[i] = other.of[i] > of[i] ? other.of[i] : of[i];
  }
  void lower_to(const Lanes& other) {
    for (long i = 0; i < kLanes; ++i) of[i] = other.of[i] < of[i] ? other.of[i] : of[i];
  }
};

// factors[k]: from coefficient k + order of a polynomial to difference k of the control points of that derivative, over
// a unit span: (k + order)! / k!, divided by n over k.
using Factors = std::array<double, kLargestSize>;

Factors difference_factors(long degree, long order) {
  Factors factors{};
  double chosen = 1;  // n over k
  for (long k = 0, n = degree - order; k <= n; ++k) {
    double factor = 1 / chosen;
    for (long j = 1; j <= order; ++j) factor *= static_cast<double>(k + j);
    factors[k] = factor;
    chosen *= static_cast<double>(n - k) / static_cast<double>(k + 1);
  }
  return factors;
}

// Whether the control points of a derivative keep bounds, in all pieces of some joints.
bool control_points_keep(const Pieces& motion, long order, long joint, const double* low, const double* high) {
  const long degree = motion.size - 1, n = degree - order, lanes = std::min(kLanes, motion.dof - joint);
  const Factors factors = difference_factors(degree, order);
  Lanes points[kLargestSize], least, most;
  for (long i = 0; i < kLanes; ++i) {
    least.of[i] = HUGE_VAL;
    most.of[i] = -HUGE_VAL;
  }
  for (long piece = 0; piece < motion.knots.count; ++piece) {
    const double step = motion.knots.step(piece);
    double power = 1;
    for (long k = 0; k <= n; ++k, power *= step) {
      points[k].take(motion.at(piece) + (k + order) * motion.dof + joint, lanes, factors[k] * power);
    }
    // From differences to the points themselves, by repeated summation.
    for (long round = n; round >= 1; --round) {
      for (long k = round; k <= n; ++k) points[k].add(points[k - 1]);
    }
    for (long k = 0; k <= n; ++k) {
      least.lower_to(points[k]);
      most.raise_to(points[k]);
    }
  }
  for (long i = 0; i < lanes; ++i) {
    if (most.of[i] > high[joint + i] || least.of[i] < low[joint + i]) return false;
  }
  return true;
}

bool control_points_keep(const Pieces& motion, const double* lows, const double* highs) {
  for (long order = 0; order < std::min(kOrders, motion.size); ++order) {
    for (long joint = 0; joint < motion.dof; joint += kLanes) {
      if (!control_points_keep(motion, order, joint, lows + order * motion.dof, highs + order * motion.dof)) return false;
    }
  }
  return true;
}

}  // namespace

bool surely_keeps(const Pieces& motion, const double* lows, const double* highs) {
  return is_far_from_bounds(motion, lows, highs) || control_points_keep(motion, lows, highs);
}

}  // namespace traj_integrator::execution
