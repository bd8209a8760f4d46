#include <algorithm>
#include <cmath>
#include <vector>

#include "polynomials.h"
#include "motions.h"

namespace traj_integrator::execution {
namespace {

// Tolerances of points.
constexpr double kNoTime = 1e-14;           // s, a rounding of times, which has no visible effect
constexpr double kBrief = 1e-2;             // s, the length of a piece from which on a jump of acceleration would show
constexpr double kShorter = 0.9;            // of the next piece's length: equal steps differ by rounding
constexpr double kNothing = 1e-12;          // rad/s and rad/s^2, what sums leave of 0
constexpr double kLastAcceleration = 5e-3;  // rad/s^2, what rounding and merged knots leave where a motion rests

// Position and derivatives of a piece, the first `orders` of them, `t` seconds after its begin.
void evaluate(const Pieces& motion, long piece, double t, long orders, double* out, long plane) {
  const double* c = motion.at(piece);
  const long dof = motion.dof;
  for (long d = 0; d < dof; ++d) {
    double p = 0, v = 0, a = 0, j = 0;  // Horner's rule for the value and three derivatives at once
    for (long k = motion.size - 1; k >= 0; --k) {
      j = j * t + a;
      a = a * t + v;
      v = v * t + p;
      p = p * t + c[k * dof + d];
    }
    const double values[kOrders] = {p, v, 2 * a, 6 * j};
    for (long order = 0; order < orders; ++order) out[order * plane + d] = values[order];
  }
}

void state_at(const Pieces& motion, double time, long orders, double* out, long plane) {
  const double* knots = motion.knots.times;
  const long last = motion.knots.count;
  const bool over = !(time < knots[last]);
  const long piece = over ? last - 1 : std::max(std::upper_bound(knots, knots + last, time) - knots - 1, 0L);
  evaluate(motion, piece, (over ? knots[last] : time) - knots[piece], orders, out, plane);
  for (long order = 1; over && order < orders; ++order) std::fill_n(out + order * plane, motion.dof, 0.0);
}

}  // namespace

void shift(double* coefficients, long size, long dof, double by) {
  for (long from = 0; from + 1 < size; ++from) {  // Horner's rule, once for each of them
    for (long at = (size - 1) * dof - 1; at >= from * dof; --at) coefficients[at] += by * coefficients[at + dof];
  }
}

void add(const double* polynomial, long size, long dof, const double* times, long count, double* coefficients) {
  std::vector<double> moved(size * dof);
  for (long piece = 0; piece < count; ++piece) {
    std::copy_n(polynomial, size * dof, moved.begin());
    shift(moved.data(), size, dof, times[piece]);
    for (const double number : moved) *coefficients++ += number;
  }
}

void end_of(const Pieces& motion, long orders, double* out) {
  const long last = motion.knots.count - 1;
  evaluate(motion, last, motion.knots.step(last), orders, out, motion.dof);
}

void states_at(const Pieces& motion, const double* times, long count, long orders, double* out) {
  for (long i = 0; i < count; ++i) state_at(motion, times[i], orders, out + i * motion.dof, count * motion.dof);
}

void points(const Pieces& motion, bool ends_pieces, bool rests, long* time_ns, double* out) {
  const long dof = motion.dof, last = motion.knots.count, plane = (last + 1) * dof;
  for (long i = 0; i <= last; ++i) {
    const double knot = motion.knots.times[i], whole_ns = std::nearbyint(knot * 1e9), whole = whole_ns * 1e-9;
    const double time = std::abs(whole - knot) > kNoTime ? whole : knot;
    const double before = i > 0 ? motion.knots.step(i - 1) : HUGE_VAL;
    double *state = out + i * dof, *velocity = state + plane, *acceleration = velocity + plane;
    time_ns[i] = static_cast<long>(whole_ns);
    if (i == last) {
      evaluate(motion, i - 1, before, 3, state, plane);
      if (rests) std::fill_n(velocity, dof, 0.0);
    } else if (ends_pieces && before < kBrief && before < kShorter * motion.knots.step(i)) {
      evaluate(motion, i - 1, time - motion.knots.times[i - 1], 3, state, plane);
    } else {
      state_at(motion, time, 3, state, plane);
    }
    const double still = i == last && rests ? kLastAcceleration : kNothing;
    for (long d = 0; d < dof; ++d) {
      if (std::abs(velocity[d]) < kNothing) velocity[d] = 0;
      if (std::abs(acceleration[d]) < still) acceleration[d] = 0;
    }
  }
}

void spline(const Knots& knots, const double* rows, long dof, const double* velocity, bool rests, double* coefficients) {
  std::vector<double> velocities((knots.count + 1) * dof);
  const retiming::SplineEnd begin = velocity == nullptr ? retiming::kWithoutJerk : retiming::SplineEnd{0, 0, velocity};
  const retiming::SplineEnd end = rests ? retiming::kAtRest : retiming::kWithoutJerk;
  retiming::spline_velocities(knots.times, knots.count, rows, dof, begin, end, velocities.data());
  for (long k = 0; k < knots.count; ++k) {
    const double *const p = rows + k * dof, *const v = velocities.data() + k * dof;
    retiming::piece_between(knots.step(k), dof, p, p + dof, v, v + dof, nullptr, nullptr, coefficients + k * 4 * dof);
  }
}

}  // namespace traj_integrator::execution
