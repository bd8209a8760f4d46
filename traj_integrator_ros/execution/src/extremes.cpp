#include <algorithm>

#include "../../kernels/retime/src/polynomials.h"
#include "motions.h"

namespace traj_integrator::execution {

bool widen(const Pieces& motion, double* ranges) {
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
