#include <algorithm>
#include <vector>

#include "../../kernels/retime/src/polynomials.h"
#include "motions.h"

namespace traj_integrator::execution {
namespace {

// Whether the coefficients of all pieces together show that no derivative exceeds its range: most motions are judged again.
bool is_surely_within(const Pieces& motion, const double* ranges) {
  const long dof = motion.dof, numbers = motion.size * dof;
  std::vector<double> low(motion.at(0), motion.at(0) + numbers), high(low);
  double longest = 0;
  for (long piece = 0; piece < motion.knots.count; ++piece) {
    longest = std::max(longest, motion.knots.step(piece));
    const double* c = motion.at(piece);
    for (long at = 0; at < numbers; ++at) {
      low[at] = std::min(low[at], c[at]);
      high[at] = std::max(high[at], c[at]);
    }
  }
  for (long order = 0; order < std::min(kOrders, motion.size); ++order) {
    for (long joint = 0; joint < dof; ++joint) {
      const double* known = ranges + order * dof + joint;
      const double factor = retiming::kFactors[order][order];
      double reach = 0, power = longest;
      for (long k = order + 1; k < motion.size; ++k, power *= longest) {
        reach += retiming::kFactors[order][k] * power * std::max(high[k * dof + joint], -low[k * dof + joint]);
      }
      if (factor * high[order * dof + joint] + reach > known[kOrders * dof]) return false;
      if (factor * low[order * dof + joint] - reach < known[0]) return false;
    }
  }
  return true;
}

}  // namespace

bool widen(const Pieces& motion, double* ranges) {
  if (is_surely_within(motion, ranges)) return false;
  const long dof = motion.dof, plane = kOrders * dof;
  bool had_to = false;
  for (long joint = 0; joint < dof; ++joint) {
    double low[kOrders], high[kOrders];
    for (long order = 0; order < kOrders; ++order) {
      low[order] = ranges[order * dof + joint];
      high[order] = ranges[plane + order * dof + joint];
    }
    for (long piece = 0; piece < motion.knots.count; ++piece) {
      double c[kLargestSize] = {};
      for (long k = 0; k < motion.size; ++k) c[k] = motion.at(piece)[k * dof + joint];
      retiming::widen_by_piece(c, motion.knots.step(piece), low, high);
    }
    for (long order = 0; order < kOrders; ++order) {
      double &least = ranges[order * dof + joint], &most = ranges[plane + order * dof + joint];
      had_to |= low[order] != least || high[order] != most;
      least = low[order];
      most = high[order];
    }
  }
  return had_to;
}

}  // namespace traj_integrator::execution
