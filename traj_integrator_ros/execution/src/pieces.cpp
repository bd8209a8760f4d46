#include <algorithm>
#include <cmath>

#include "motions.h"
#include "polynomials.h"

namespace traj_integrator::execution {

void evaluate(const Pieces& motion, long piece, double t, long orders, double* out, long plane) {
  const double* c = motion.at(piece);
  const long dof = motion.dof;
  for (long d = 0; d < dof; ++d) {
    double p = 0, v = 0, a = 0, j = 0;  // Horner's rule for the value and three derivatives at once
    for (long k = kSize - 1; k >= 0; --k) {
      j = j * t + a;
      a = a * t + v;
      v = v * t + p;
      p = p * t + c[k * dof + d];
    }
    const double values[kOrders] = {p, v, 2 * a, 6 * j};
    for (long order = 0; order < orders; ++order) out[order * plane + d] = values[order];
  }
}

namespace {

constexpr double kBrief = 1e-2;    // s, of a piece from which on a jump of acceleration would show
constexpr double kShorter = 0.9;   // share of the next piece: equal steps differ by rounding
constexpr double kNothing = 1e-12; // rad/s or rad/s^2 that sums leave of 0
constexpr double kAtRest = 5e-3;   // rad/s^2 that rounding and merged knots leave where a motion rests

void state_at(const Pieces& motion, double time, long orders, double* out, long plane) {
  const double* knots = motion.knots.times;
  const long last = motion.knots.count;
  const bool over = !(time < knots[last]);
  const long piece = over ? last - 1 : std::max(std::upper_bound(knots, knots + last, time) - knots - 1, 0L);
  evaluate(motion, piece, (over ? knots[last] : time) - knots[piece], orders, out, plane);
  for (long order = 1; over && order < orders; ++order) std::fill_n(out + order * plane, motion.dof, 0.0);
}

// Returns whether a piece's ends, and its greatest bend between them, show that no derivative exceeds its range.
bool is_surely_within(const Pieces& motion, long piece, const double* ranges) {
  const long dof = motion.dof;
  const double h = motion.knots.step(piece), *c = motion.at(piece);
  for (long order = 0; order < kOrders; ++order) {
    const double* factors = retiming::kFactors[order];
    for (long joint = 0; joint < dof; ++joint) {
      const double begin = factors[order] * c[order * dof + joint];
      double end = 0, bend = 0;  // by Horner's rule
      for (long k = kSize - 1; k >= order; --k) {
        const double part = factors[k] * c[k * dof + joint];
        end = end * h + part;
        if (k > order + 1) bend = bend * h + (k - order) * (k - order - 1) * std::fabs(part);
      }
      bend *= h * h / 8;
      const double* known = ranges + order * dof + joint;
      const bool keeps = std::min(end, begin) - bend >= known[0] && std::max(end, begin) + bend <= known[kOrders * dof];
      if (!keeps) return false;  // NaN stays within no range
    }
  }
  return true;
}

// Widens ranges to contain a piece of one joint, by its exact extremes; returns whether it had to.
bool widen_by(const Pieces& motion, long piece, long joint, double* ranges) {
  const long dof = motion.dof, plane = kOrders * dof;
  double c[kSize], low[kOrders], high[kOrders];
  for (long k = 0; k < kSize; ++k) c[k] = motion.at(piece)[k * dof + joint];
  for (long order = 0; order < kOrders; ++order) {
    low[order] = ranges[order * dof + joint];
    high[order] = ranges[plane + order * dof + joint];
  }
  retiming::widen_by_piece(c, motion.knots.step(piece), low, high);
  bool had_to = false;
  for (long order = 0; order < kOrders; ++order) {
    double &least = ranges[order * dof + joint], &most = ranges[plane + order * dof + joint];
    had_to |= low[order] != least || high[order] != most;
    least = low[order];
    most = high[order];
  }
  return had_to;
}

}  // namespace

void shift(double* coefficients, double by, long dof) {
  if (by == 0) return;
  for (long from = 0; from + 1 < kSize; ++from) {  // Horner's rule, once for each of them
    for (long at = (kSize - 1) * dof; at-- > from * dof;) coefficients[at] += by * coefficients[at + dof];
  }
}

void between(const double* steps, long count, long dof, long orders, const double* states, double* out) {
  const auto state = [&](long order, long k) { return order < orders ? states + (order * (count + 1) + k) * dof : nullptr; };
  for (long k = 0; k < count; ++k, out += kSize * dof) {
    retiming::piece_between(steps[k], dof, state(0, k), state(0, k + 1), state(1, k), state(1, k + 1), state(2, k),
                            state(2, k + 1), out);
  }
}

void grow(double span, const State& to, double* out) {
  const double states[] = {0, to.position, 0, to.velocity, 0, to.acceleration};
  between(&span, 1, 1, 3, states, out);
}

void cut(const Pieces& motion, long joint, double begin, double end, long& piece, double* out) {
  const double middle = (begin + end) / 2, *const times = motion.knots.times;
  const long last = motion.knots.count - 1;
  while (piece < last && times[piece + 1] <= middle) ++piece;
  const bool over = middle >= times[last + 1];
  for (long power = 0; power < kSize; ++power) out[power] = motion.at(piece)[power * motion.dof + joint];
  shift(out, (over ? times[last + 1] : begin) - times[piece]);
  if (over) std::fill(out + 1, out + kSize, 0.0);
}

void points(const Pieces& motion, const double* times, bool rests, double* out) {
  const long count = motion.knots.count, dof = motion.dof, plane = (count + 1) * dof;
  const double* const knots = motion.knots.times;
  for (long k = 0; k <= count; ++k) {
    const double before = k > 0 ? motion.knots.step(k - 1) : 0, after = k < count ? motion.knots.step(k) : 0;
    const bool is_end = k == count || (before > 0 && before < kBrief && before < kShorter * after);
    const long piece = is_end ? k - 1 : k;
    evaluate(motion, piece, k < count ? times[k] - knots[piece] : before, kPointOrders, out + k * dof, plane);
  }
  for (double* rate = out + plane; rate != out + kPointOrders * plane; ++rate) {
    if (std::fabs(*rate) < kNothing) *rate = 0;
  }
  for (long d = 0; rests && d < dof; ++d) {
    double& acceleration = out[3 * plane - dof + d];
    out[2 * plane - dof + d] = 0;
    if (std::fabs(acceleration) < kAtRest) acceleration = 0;
  }
}

void states_at(const Pieces& motion, const double* times, long count, long orders, double* out) {
  for (long i = 0; i < count; ++i) state_at(motion, times[i], orders, out + i * motion.dof, count * motion.dof);
}

void spline(const Knots& knots, const double* rows, long dof, const double* first, const double* last, double* velocities) {
  retiming::spline_velocities(knots.times, knots.count, rows, dof, {0, 0, first}, {0, 0, last}, velocities);
}

bool widen(const Pieces& motion, double* ranges) {
  bool had_to = false;
  for (long piece = 0; piece < motion.knots.count; ++piece) {
    if (is_surely_within(motion, piece, ranges)) continue;
    for (long joint = 0; joint < motion.dof; ++joint) had_to |= widen_by(motion, piece, joint, ranges);
  }
  return had_to;
}

}  // namespace traj_integrator::execution
