#include "parts.h"

#include <algorithm>

#include "points.h"

namespace traj_integrator::execution {

long from_time(const Pieces& motion, double time, double sliver, double* knots, double* coefficients) {
  const double* times = motion.knots.times;
  const long count = motion.knots.count, piece_size = motion.size * motion.dof;
  long piece = std::clamp(std::upper_bound(times, times + count + 1, time) - times - 1, 0L, count - 1);
  if (piece + 1 < count && times[piece + 1] - time < sliver) ++piece;
  const double into = time - times[piece];
  std::transform(times + piece, times + count + 1, knots, [time](double knot) { return knot - time; });
  knots[0] = 0;
  std::copy_n(motion.at(piece), (count - piece) * piece_size, coefficients);
  if (into != 0) shift(coefficients, motion.size, motion.dof, into);
  return count - piece;
}

void then(const Pieces& motion, const Pieces& next, long size, double* knots, double* coefficients) {
  const long dof = motion.dof;
  const double end = motion.knots.times[motion.knots.count];
  double* after = std::copy_n(motion.knots.times, motion.knots.count + 1, knots);
  std::transform(next.knots.times + 1, next.knots.times + next.knots.count + 1, after,
                 [end](double knot) { return end + knot; });
  for (const Pieces* part : {&motion, &next}) {
    for (long piece = 0; piece < part->knots.count; ++piece) {
      double* padding = std::copy_n(part->at(piece), part->size * dof, coefficients);
      coefficients += size * dof;
      std::fill(padding, coefficients, 0.0);
    }
  }
}

}  // namespace traj_integrator::execution
