#include <algorithm>
#include <cmath>

#include "polynomials.h"
#include "motions.h"

namespace traj_integrator::execution {
namespace {

// Returns whether a piece's ends, and its greatest bend between them, show that no derivative exceeds its range.
bool is_surely_within(const Pieces& motion, long piece, const double* ranges) {
  const long dof = motion.dof;
  const double h = motion.knots.step(piece), *c = motion.at(piece);
  for (long order = 0; order < kOrders; ++order) {
    const double* factors = retiming::kFactors[order];
    for (long joint = 0; joint < dof; ++joint) {
      const double begin = order < motion.size ? factors[order] * c[order * dof + joint] : 0;
      double end = 0, bend = 0;  // by Horner's rule
      for (long k = motion.size - 1; k >= order; --k) {
        const double part = factors[k] * c[k * dof + joint];
        end = end * h + part;
        if (k > order + 1) bend = bend * h + (k - order) * (k - order - 1) * std::fabs(part);
      }
      bend *= h * h / 8;
      const double* known = ranges + order * dof + joint;
      const bool keeps = std::min(end, begin) - bend >= known[0] && std::max(end, begin) + bend <= known[kOrders * dof];
      if (!keeps) return false;  // NaN stays within no range
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
  bool had_to = false;
  for (long piece = 0; piece < motion.knots.count; ++piece) {
    if (is_surely_within(motion, piece, ranges)) continue;
    for (long joint = 0; joint < motion.dof; ++joint) had_to |= widen_by(motion, piece, joint, ranges);
  }
  return had_to;
}

}  // namespace traj_integrator::execution
