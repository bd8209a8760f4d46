#include "profile.h"

#include <algorithm>
#include <cmath>

namespace traj_integrator::execution {
namespace {

constexpr long kSize = 6;

// Adds the polynomial c of the time from the profile's beginning on.
void add(const double (&c)[kSize], const double* knots, long count, double* coefficients) {
  for (long piece = 0; piece < count; ++piece) {
    double moved[kSize];
    std::copy_n(c, kSize, moved);
    for (long from = 0; from + 1 < kSize; ++from) {
      for (long power = kSize - 2; power >= from; --power) moved[power] += knots[piece] * moved[power + 1];
    }
    for (long power = 0; power < kSize; ++power) coefficients[piece * kSize + power] += moved[power];
  }
}

}  // namespace

long pieces_of_profile(const Profile& profile, const ProfileEnd& end, double* knots, double* coefficients) {
  const bool given = !std::isnan(end.duration);
  double p = profile.begin[0], v = profile.begin[1], a = profile.begin[2], time = 0;
  long count = 0;
  knots[0] = 0;
  const auto write = [&](double v_, double half_a, double sixth_j) {
    double* c = coefficients + count * kSize;
    std::fill_n(c, kSize, 0.0);
    c[0] = p;
    c[1] = v_;
    c[2] = half_a;
    c[3] = sixth_j;
  };
  for (long place = 0; place < profile.count; ++place) {
    const double jerk = profile.jerks[place];
    time += profile.spans[place];
    double knot = std::nearbyint(time * 1e9) * 1e-9;
    if (given && (knot > end.duration || place == profile.count - 1)) knot = end.duration;
    const double h = knot - knots[count];
    if (h <= 0) continue;
    write(v, a / 2, jerk / 6);
    knots[++count] = knot;
    p += (v + (a / 2 + jerk / 6 * h) * h) * h;
    v += (a + jerk / 2 * h) * h;
    a += jerk * h;
  }
  if (count == 0) {
    write(0, 0, 0);
    knots[++count] = std::max(given ? end.duration : time, 1e-9);
    v = a = 0;
  }
  const double span = knots[count], dv = end.state[1] - v, da = end.state[2] - a;
  const double dp = end.velocity_only ? dv * span / 2 - da * span * span / 12 : end.state[0] - p;
  const double cube = span * span * span;
  const double growing[kSize] = {0, 0, 0,
                                 (10 * dp - 4 * dv * span + da * span * span / 2) / cube,
                                 (-15 * dp + 7 * dv * span - da * span * span) / (cube * span),
                                 (6 * dp - 3 * dv * span + da * span * span / 2) / (cube * span * span)};
  add(growing, knots, count, coefficients);
  return count;
}

}  // namespace traj_integrator::execution
