#include "extremes.h"

#include <algorithm>
#include <cmath>

#include "../../kernels/retime/src/certificate.h"

namespace traj_integrator::execution {

using retiming::kOrders;

void extremes(const Pieces& motion, double* out) {
  const long dof = motion.dof;
  for (long joint = 0; joint < dof; ++joint) {
    double least[kOrders], most[kOrders];
    std::fill_n(least, kOrders, HUGE_VAL);
    std::fill_n(most, kOrders, -HUGE_VAL);
    // First where pieces begin: most of them are surely within what is known then.
    for (long piece = 0; piece < motion.knots.count; ++piece) {
      double factor = 1;
      for (long order = 0; order < std::min<long>(kOrders, motion.size); factor *= static_cast<double>(++order)) {
        const double value = factor * motion.at(piece)[order * dof + joint];
        least[order] = std::min(least[order], value);
        most[order] = std::max(most[order], value);
      }
    }
    for (long piece = 0; piece < motion.knots.count; ++piece) {
      double c[kLargestExtremesSize] = {};
      for (long k = 0; k < motion.size; ++k) c[k] = motion.at(piece)[k * dof + joint];
      retiming::widen_by_piece(c, motion.knots.step(piece), least, most);
    }
    for (long order = 0; order < kOrders; ++order) {
      out[order * dof + joint] = least[order];
      out[(kOrders + order) * dof + joint] = most[order];
    }
  }
}

}  // namespace traj_integrator::execution
