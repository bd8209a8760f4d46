#include "spline.h"

#include <algorithm>
#include <vector>

namespace traj_integrator::execution {
namespace {

// As in `fade.py`.
constexpr long kFadeSteps = 3;
constexpr double kShort = 0.8, kSameTime = 1e-9;

// Velocities at the knots, by elimination in the tridiagonal system of a C2 cubic spline, all joints at once.
void solve_velocities(const Positions& positions, const Ends& ends, double* velocities) {
  const long count = positions.knots.count, dof = positions.dof;
  const double* rows = positions.rows;
  std::vector<double> factors(count + 1), rates(count);
  for (long k = 0; k < count; ++k) rates[k] = 1 / positions.knots.step(k);
  const auto secant = [&](long k, long d) { return (rows[(k + 1) * dof + d] - rows[k * dof + d]) * rates[k]; };
  // At an open end without jerk, the secant of the piece is the mean of the velocities at its ends.
  double above = ends.velocity == nullptr ? 1.0 : 0.0;  // of the previous row, already divided by its diagonal
  factors[0] = above;
  for (long d = 0; d < dof; ++d) velocities[d] = ends.velocity == nullptr ? 2 * secant(0, d) : ends.velocity[d];
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
    if (ends.rests) {
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

// Equal steps all have the same fading polynomials; `size` doubles apart.
void write_cubics(const Positions& positions, const double* velocities, int size, double* coefficients) {
  const long dof = positions.dof;
  for (long k = 0; k < positions.knots.count; ++k) {
    const double rate = 1 / positions.knots.step(k);
    const double *p = positions.rows + k * dof, *v = velocities + k * dof;
    double* piece = coefficients + k * size * dof;
    for (long d = 0; d < dof; ++d) {
      const double secant = (p[dof + d] - p[d]) * rate, bend = (v[d] + v[dof + d] - 2 * secant) * rate;
      piece[d] = p[d];
      piece[dof + d] = v[d];
      piece[2 * dof + d] = (secant - v[d]) * rate - bend;
      piece[3 * dof + d] = bend * rate;
    }
    std::fill(piece + 4 * dof, piece + size * dof, 0.0);
  }
}

// End of a fade that begins at time 0 and may end at one of these increasing knots, the first of which is 0.
template <class KnotAt>
double fade_span(const KnotAt& knot, long knots, double fade_time) {
  long last = 0;
  while (last < knots && knot(last) <= fade_time * (1 + 1e-9)) ++last;
  last = std::max(last, 2L);
  if (last < knots && knot(last - 1) < kShort * fade_time) ++last;
  const long first = knots > 2 && knot(1) < 0.9 * (knot(2) - knot(1)) ? 2 : 1;
  const long choices = std::max(last, first + 1) - first;
  return knot(first + std::min(kFadeSteps, choices) - 1);
}

// Adds a t^2 (1 - t/span)^3 / 2 to a piece that begins at time `at` of the fade, which may run backwards.
void add_fade(double* piece, const double* a, double span, double at, bool backwards, long dof) {
  const double rate = 1 / span;
  double c[6] = {0, 0, 0.5, -1.5 * rate, 1.5 * rate * rate, -0.5 * rate * rate * rate};
  for (int i = 0; i < 5; ++i) {
    for (int k = 4; k >= i; --k) c[k] += at * c[k + 1];
  }
  for (int k = 0; k < 6; ++k) {
    const double factor = backwards && k % 2 ? -c[k] : c[k];
    for (long d = 0; d < dof; ++d) piece[k * dof + d] += a[d] * factor;
  }
}

}  // namespace

int piece_size(const Ends& ends, double fade_time) {
  return fade_time > 0 && (ends.acceleration != nullptr || ends.rests) ? 6 : 4;
}

void motion_through(const Positions& positions, const Ends& ends, double fade_time, double* coefficients) {
  const Knots& knots = positions.knots;
  const long count = knots.count, dof = positions.dof;
  const int size = piece_size(ends, fade_time);
  std::vector<double> velocities((count + 1) * dof), lack(3 * dof);
  solve_velocities(positions, ends, velocities.data());
  write_cubics(positions, velocities.data(), size, coefficients);
  if (fade_time <= 0) return;
  if (ends.acceleration != nullptr) {
    for (long d = 0; d < dof; ++d) lack[d] = ends.acceleration[d] - 2 * coefficients[2 * dof + d];
    const double span = fade_span([&](long k) { return knots.times[k]; }, count + 1, fade_time);
    for (long k = 0; k < count && knots.times[k] < span - kSameTime; ++k) {
      add_fade(coefficients + k * size * dof, lack.data(), span, knots.times[k], false, dof);
    }
  }
  if (ends.rests) {
    double* acceleration = lack.data();
    end_of({coefficients, knots, size, dof}, lack.data() + dof, lack.data() + 2 * dof, acceleration);
    for (long d = 0; d < dof; ++d) acceleration[d] = -acceleration[d];
    const double duration = knots.times[count];
    const auto to_end = [&](long k) { return duration - knots.times[k]; };
    const double span = fade_span([&](long k) { return to_end(count - k); }, count + 1, fade_time);
    for (long k = count - 1; k >= 0 && knots.times[k] >= duration - span - kSameTime; --k) {
      add_fade(coefficients + k * size * dof, acceleration, span, to_end(k), true, dof);
    }
  }
}

}  // namespace traj_integrator::execution
