#include "points.h"

#include <algorithm>

namespace traj_integrator::execution {

void end_of(const Pieces& motion, double* position, double* velocity, double* acceleration) {
  const long last = motion.knots.count - 1, dof = motion.dof;
  const double t = motion.knots.step(last);
  const double* piece = motion.at(last);
  for (long d = 0; d < dof; ++d) {
    double p = 0, v = 0, a = 0;  // Horner's rule for the value and two derivatives at once
    for (long k = motion.size - 1; k >= 0; --k) {
      a = a * t + v;
      v = v * t + p;
      p = p * t + piece[k * dof + d];
    }
    position[d] = p;
    velocity[d] = v;
    acceleration[d] = 2 * a;
  }
}

void states_at_knots(const Pieces& motion, bool ends_at_rest, double* states) {
  const long count = motion.knots.count, dof = motion.dof, plane = (count + 1) * dof;
  for (long piece = 0; piece < count; ++piece) {
    const double* from = motion.at(piece);
    double* to = states + piece * dof;
    for (long d = 0; d < dof; ++d) {
      to[d] = from[d];
      to[plane + d] = from[dof + d];
      to[2 * plane + d] = motion.size > 2 ? 2 * from[2 * dof + d] : 0.0;
    }
  }
  double* end = states + count * dof;
  end_of(motion, end, end + plane, end + 2 * plane);
  if (ends_at_rest) std::fill(end + plane, end + plane + dof, 0.0);
}

}  // namespace traj_integrator::execution
