#include <algorithm>
#include <cmath>
#include <vector>

#include "polynomials.h"
#include "motions.h"

namespace traj_integrator::execution {
namespace {

constexpr double kAlike = 2;  // times the length of the first of them

// Whether the coefficients of pieces of similar lengths together show that no derivative exceeds its range: most motions are
// judged again.
bool are_surely_within(const Pieces& motion, long first, long end, const double* ranges, double* memory) {
  const long dof = motion.dof, numbers = motion.size * dof;
  double *low = memory, *high = memory + numbers, longest = 0;
  std::copy_n(motion.at(first), numbers, low);
  std::copy_n(motion.at(first), numbers, high);
  for (long piece = first; piece < end; ++piece) {
    longest = std::max(longest, motion.knots.step(piece));
    const double* c = motion.at(piece);
    for (long at = 0; at < numbers; ++at) {
      low[at] = std::min(low[at], c[at]);
      high[at] = std::max(high[at], c[at]);
    }
  }
  for (long order = 0; order < kOrders; ++order) {
    const double factor = retiming::kFactors[order][order];
    const bool is_zero = order >= motion.size;
    for (long joint = 0; joint < dof; ++joint) {
      const double least = is_zero ? 0 : factor * low[order * dof + joint];
      const double most = is_zero ? 0 : factor * high[order * dof + joint];
      double reach = 0, power = longest;
      for (long k = order + 1; k < motion.size; ++k, power *= longest) {
        reach += retiming::kFactors[order][k] * power * std::max(high[k * dof + joint], -low[k * dof + joint]);
      }
      const double* known = ranges + order * dof + joint;
      if (least - reach < known[0] || most + reach > known[kOrders * dof]) return false;
    }
  }
  return true;
}

// Whether the ends of a piece, and how far it may bend between them, show the same for that piece.
bool is_surely_within(const Pieces& motion, long piece, const double* ranges) {
  const long dof = motion.dof;
  const double h = motion.knots.step(piece), *c = motion.at(piece);
  for (long order = 0; order < kOrders; ++order) {
    const double* factors = retiming::kFactors[order];
    for (long joint = 0; joint < dof; ++joint) {
      const double begin = order < motion.size ? factors[order] * c[order * dof + joint] : 0;
      double end = 0, bend = 0;  // by Horner's rule
      for (long k = motion.size - 1; k >= order; --k) end = end * h + factors[k] * c[k * dof + joint];
      for (long k = motion.size - 1; k > order + 1; --k) {
        bend = bend * h + factors[k] * (k - order) * (k - order - 1) * std::fabs(c[k * dof + joint]);
      }
      bend *= h * h / 8;
      const double* known = ranges + order * dof + joint;
      const bool keeps = std::min(end, begin) - bend >= known[0] && std::max(end, begin) + bend <= known[kOrders * dof];
      if (!keeps) return false;  // what is not a number does not
    }
  }
  return true;
}

// Widens ranges to contain a piece of one joint, by its exact extremes; returns whether it had to.
bool widen_by(const Pieces& motion, long piece, long joint, double* ranges) {
  const long dof = motion.dof, plane = kOrders * dof;
  double c[kLargestSize] = {}, low[kOrders], high[kOrders];
  for (long k = 0; k < motion.size; ++k) c[k] = motion.at(piece)[k * dof + joint];
  for (long order = 0; order < kOrders; ++order) {
    low[order] = ranges[order * dof + joint];
    high[order] = ranges[plane + order * dof + joint];
  }
  retiming::widen_by_piece(c, motion.knots.step(piece), low, high);
  bool had_to = false;
  for (long order = 0; order < kOrders; ++order) {
    double &least = ranges[order * dof + joint], &most = ranges[plane + order * dof + joint];
    had_to |= low[order] != least || high[order] != most;
    least = low[order];
    most = high[order];
  }
  return had_to;
}

}  // namespace

bool widen(const Pieces& motion, double* ranges) {
  std::vector<double> memory(2 * motion.size * motion.dof);
  bool had_to = false;
  for (long first = 0, end = 1; first < motion.knots.count; first = end++) {
    const double most = kAlike * motion.knots.step(first), least = motion.knots.step(first) / kAlike;
    while (end < motion.knots.count && motion.knots.step(end) <= most && motion.knots.step(end) >= least) ++end;
    if (are_surely_within(motion, first, end, ranges, memory.data())) continue;
    for (long piece = first; piece < end; ++piece) {
      if (is_surely_within(motion, piece, ranges)) continue;
      for (long joint = 0; joint < motion.dof; ++joint) had_to |= widen_by(motion, piece, joint, ranges);
    }
  }
  return had_to;
}

}  // namespace traj_integrator::execution
