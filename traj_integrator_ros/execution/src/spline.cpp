#include <vector>

#include "motions.h"

namespace traj_integrator::execution {
namespace {

// Velocities at the knots, by elimination in the tridiagonal system of a C2 cubic spline, all joints at once.
void solve_velocities(const Knots& knots, const double* rows, long dof, const double* first, bool rests, double* velocities) {
  const long count = knots.count;
  std::vector<double> factors(count + 1), rates(count);
  for (long k = 0; k < count; ++k) rates[k] = 1 / knots.step(k);
  const auto secant = [&](long k, long d) { return (rows[(k + 1) * dof + d] - rows[k * dof + d]) * rates[k]; };
  // At an open end without jerk, the secant of the piece is the mean of the velocities at its ends.
  double above = first == nullptr ? 1.0 : 0.0;  // of the previous row, already divided by its diagonal
  factors[0] = above;
  for (long d = 0; d < dof; ++d) velocities[d] = first == nullptr ? 2 * secant(0, d) : first[d];
  for (long k = 1; k < count; ++k) {
    const double before = rates[k - 1], after = rates[k];
    const double pivot = 1 / (2 * (before + after) - before * above);
    double* now = velocities + k * dof;
    for (long d = 0; d < dof; ++d) {
      const double right = 3 * (before * secant(k - 1, d) + after * secant(k, d));
      now[d] = (right - before * now[d - dof]) * pivot;
    }
    above = after * pivot;
    factors[k] = above;
  }
  double* last = velocities + count * dof;
  for (long d = 0; d < dof; ++d) {
    if (rests) {
      last[d] = 0.0;
    } else if (above == 1.0) {  // one piece and both ends open: any velocities with that mean are possible
      last[d] = secant(count - 1, d);
    } else {
      last[d] = (2 * secant(count - 1, d) - last[d - dof]) / (1 - above);
    }
  }
  for (long k = count - 1; k >= 0; --k) {
    double* now = velocities + k * dof;
    for (long d = 0; d < dof; ++d) now[d] -= factors[k] * now[d + dof];
  }
}

}  // namespace

void spline(const Knots& knots, const double* rows, long dof, const double* velocity, bool rests, double* coefficients) {
  std::vector<double> velocities((knots.count + 1) * dof);
  solve_velocities(knots, rows, dof, velocity, rests, velocities.data());
  for (long k = 0; k < knots.count; ++k) {
    const double rate = 1 / knots.step(k);
    const double *p = rows + k * dof, *v = velocities.data() + k * dof;
    double* piece = coefficients + k * 4 * dof;
    for (long d = 0; d < dof; ++d) {
      const double secant = (p[dof + d] - p[d]) * rate, bend = (v[d] + v[dof + d] - 2 * secant) * rate;
      piece[d] = p[d];
      piece[dof + d] = v[d];
      piece[2 * dof + d] = (secant - v[d]) * rate - bend;
      piece[3 * dof + d] = bend * rate;
    }
  }
}

}  // namespace traj_integrator::execution
