#include "extremes.h"

#include <algorithm>
#include <cmath>
#include <vector>

#include "../../kernels/retime/src/certificate.h"

namespace traj_integrator::execution {

using retiming::kOrders;

namespace {

constexpr double kFactors[kOrders][kLargestExtremesSize] = {  // of coefficients in derivatives
    {1, 1, 1, 1, 1, 1}, {0, 1, 2, 3, 4, 5}, {0, 0, 2, 6, 12, 20}, {0, 0, 0, 6, 24, 60}};

// Whether a joint might exceed what is known, during a piece: from the sizes of all of its coefficients.
void find_beyond(const Pieces& motion, long piece, const double* known, double* reach, char* beyond) {
  const long dof = motion.dof, plane = kOrders * dof;
  const double span = motion.knots.step(piece), *c = motion.at(piece);
  std::fill_n(beyond, dof, 0);
  for (long order = 0; order < std::min<long>(kOrders, motion.size); ++order) {
    std::fill_n(reach, dof, 0.0);
    double power = span;
    for (long k = order + 1; k < motion.size; ++k, power *= span) {
      const double weight = kFactors[order][k] * power, *of = c + k * dof;
      for (long joint = 0; joint < dof; ++joint) reach[joint] += weight * std::abs(of[joint]);
    }
    const double *least = known + order * dof, *most = least + plane, *of = c + order * dof;
    for (long joint = 0; joint < dof; ++joint) {
      const double value = kFactors[order][order] * of[joint];
      // A number that is none is beyond all.
      beyond[joint] |= static_cast<char>(!(value + reach[joint] <= most[joint] && value - reach[joint] >= least[joint]));
    }
  }
}

}  // namespace

void extremes(const Pieces& motion, double* out) {
  const long dof = motion.dof, plane = kOrders * dof;
  double *least = out, *most = out + plane;
  const long known = std::min<long>(kOrders, motion.size) * dof;  // the other derivatives are 0
  std::fill(std::fill_n(least, known, HUGE_VAL), most, 0.0);
  std::fill(std::fill_n(most, known, -HUGE_VAL), most + plane, 0.0);
  // First where pieces begin: most of them are surely within what is known then.
  for (long piece = 0; piece < motion.knots.count; ++piece) {
    double factor = 1;
    for (long order = 0; order < std::min<long>(kOrders, motion.size); factor *= static_cast<double>(++order)) {
      for (long joint = order * dof; joint < (order + 1) * dof; ++joint) {
        const double value = factor * motion.at(piece)[joint];
        least[joint] = std::min(least[joint], value);
        most[joint] = std::max(most[joint], value);
      }
    }
  }
  std::vector<char> beyond(dof);
  std::vector<double> reach(dof);
  for (long piece = 0; piece < motion.knots.count; ++piece) {
    find_beyond(motion, piece, out, reach.data(), beyond.data());
    for (long joint = 0; joint < dof; ++joint) {
      if (!beyond[joint]) continue;
      double c[kLargestExtremesSize] = {}, sides[2][kOrders];
      for (long k = 0; k < motion.size; ++k) c[k] = motion.at(piece)[k * dof + joint];
      for (long side = 0; side < 2 * kOrders; ++side) sides[side / kOrders][side % kOrders] = out[side * dof + joint];
      retiming::widen_by_piece(c, motion.knots.step(piece), sides[0], sides[1]);
      for (long side = 0; side < 2 * kOrders; ++side) out[side * dof + joint] = sides[side / kOrders][side % kOrders];
    }
  }
}

}  // namespace traj_integrator::execution
