#include "polynomials.h"

#include <algorithm>
#include <cmath>
#include <vector>

namespace traj_integrator::retiming {
namespace {

// Polynomials over [0, 1], by powers.
double value(const double* c, int degree, double e) {
  double sum = c[degree];
  for (int k = degree - 1; k >= 0; --k) sum = sum * e + c[k];
  return sum;
}

// The zero between two ends of different signs, where the polynomial is monotone.
double zero_between(const double* c, int degree, double from, double to, double at_from) {
  double slope[kDegree];
  for (int k = 1; k <= degree; ++k) slope[k - 1] = k * c[k];
  double e = 0.5 * (from + to);
  for (int step = 0; step < 100; ++step) {
    const double f = value(c, degree, e);
    if (f == 0) return e;
    ((f > 0) == (at_from > 0) ? from : to) = e;
    double next = e - f / value(slope, degree - 1, e);
    if (!(next > from && next < to)) next = 0.5 * (from + to);
    if (std::abs(next - e) <= 1e-16 || to - from <= 1e-16) return next;
    e = next;
  }
  return e;
}

// Zeros within (0, 1) of a polynomial whose slope vanishes at the `turns` only; returns how many.
int zeros(const double* c, int degree, const double* turns, int turn_count, double* found) {
  int count = 0;
  double from = 0, at_from = value(c, degree, 0);
  for (int k = 0; k <= turn_count; ++k) {
    const double to = k < turn_count ? turns[k] : 1, at_to = value(c, degree, to);
    if (at_from == 0 && from > 0) found[count++] = from;
    else if (at_from * at_to < 0) found[count++] = zero_between(c, degree, from, to, at_from);
    from = to;
    at_from = at_to;
  }
  return count;
}

void widen(double x, double& low, double& high) {
  low = std::min(low, x);
  high = std::max(high, x);
}

// C(i, k) / C(degree, k): from coefficients of powers to those of Bernstein's polynomials, which bound the values.
struct BernsteinWeights {
  double of[kDegree + 1][kDegree + 1][kDegree + 1] = {};
  constexpr BernsteinWeights() {
    for (int degree = 0; degree <= kDegree; ++degree) {
      for (int i = 0; i <= degree; ++i) {
        double weight = 1;
        for (int k = 0; k <= i; ++k) {
          of[degree][i][k] = weight;
          if (k < degree) weight *= static_cast<double>(i - k) / static_cast<double>(degree - k);
        }
      }
    }
  }
};
constexpr BernsteinWeights kWeights;

// Returns whether the Bernstein coefficients show that the polynomial stays within the known extremes.
bool surely_within(const double* c, int degree, double scale, double low, double high) {
  for (int i = 0; i <= degree; ++i) {
    double sum = 0;
    for (int k = 0; k <= i; ++k) sum += kWeights.of[degree][i][k] * c[k];
    sum *= scale;
    if (sum < low || sum > high) return false;
  }
  return true;
}

}  // namespace

void widen_by_piece(const double* coefficients, double span, double* low, double* high) {
  const double rate = 1 / span, scale[kOrders] = {1, rate, rate * rate, rate * rate * rate};
  double c[kOrders + 1][kDegree + 1], power = 1;
  for (int k = 0; k <= kDegree; ++k, power *= span) c[0][k] = coefficients[k] * power;
  // First the begin of each order and the sizes of its coefficients: usually they show that no extreme is beyond.
  bool is_open[kOrders], any = false;
  for (int order = 0; order < kOrders; ++order) {
    const double begin = kFactors[order][order] * coefficients[order];
    double reach = 0;
    for (int k = order + 1; k <= kDegree; ++k) reach += kFactors[order][k] * std::abs(c[0][k]);
    reach *= scale[order];
    widen(begin, low[order], high[order]);
    any |= is_open[order] = !(begin + reach <= high[order] && begin - reach >= low[order]);
  }
  if (!any) return;
  for (int order = 1; order <= kOrders; ++order) {
    for (int k = 0; k + order <= kDegree; ++k) c[order][k] = (k + 1) * c[order - 1][k + 1];
  }
  // Where each order turns, found from the slopes' turns on, only as far down as needed.
  double turns[kOrders + 1][kDegree];
  int count[kOrders + 1] = {}, known = kOrders;
  for (int order = kOrders - 1; order >= 0; --order) {
    if (!is_open[order]) continue;
    const int degree = kDegree - order;
    widen(value(c[order], degree, 1) * scale[order], low[order], high[order]);
    if (surely_within(c[order], degree, scale[order], low[order], high[order])) continue;
    for (; known > order; --known) count[known - 1] = zeros(c[known], kDegree - known, turns[known], count[known], turns[known - 1]);
    for (int k = 0; k < count[order]; ++k) {
      widen(value(c[order], degree, turns[order][k]) * scale[order], low[order], high[order]);
    }
  }
}

void piece_between(double span, int64_t dof, const double* p0, const double* p1, const double* v0, const double* v1,
                   const double* a0, const double* a1, double* coefficients) {
  const double h = span, rate = 1 / h;
  for (int64_t j = 0; j < dof; ++j) {
    double* const c = coefficients + j;
    c[0] = p0[j];
    if (v0 == nullptr) {
      c[dof] = (p1[j] - p0[j]) * rate;
    } else if (a0 == nullptr) {
      const double secant = (p1[j] - p0[j]) * rate, bend = (v0[j] + v1[j] - 2 * secant) * rate;
      c[dof] = v0[j];
      c[2 * dof] = (secant - v0[j]) * rate - bend;
      c[3 * dof] = bend * rate;
    } else {
      const double p = (p1[j] - p0[j] - v0[j] * h - a0[j] * h * h / 2) * rate * rate * rate;
      const double v = (v1[j] - v0[j] - a0[j] * h) * rate * rate, a = (a1[j] - a0[j]) * rate / 2;
      c[dof] = v0[j];
      c[2 * dof] = a0[j] / 2;
      c[3 * dof] = 10 * p - 4 * v + a;
      c[4 * dof] = (-15 * p + 7 * v - 2 * a) * rate;
      c[5 * dof] = (6 * p - 3 * v + a) * rate * rate;
    }
  }
}

// By elimination in the tridiagonal system, all joints at once: v_k = v'_k - factor_k v_(k+1).
void spline_velocities(const double* knots, int64_t pieces, const double* positions, int64_t dof, const SplineEnd& begin,
                       const SplineEnd& end, double* velocities) {
  std::vector<double> factors(pieces + 1), rates(pieces);
  for (int64_t k = 0; k < pieces; ++k) rates[k] = 1 / (knots[k + 1] - knots[k]);
  const auto secant = [&](int64_t k, int64_t j) { return (positions[(k + 1) * dof + j] - positions[k * dof + j]) * rates[k]; };
  const auto of_end = [&](const SplineEnd& at, int64_t k, int64_t j) {
    return at.given != nullptr ? at.given[j] : at.slope * secant(k, j);
  };
  double above = factors[0] = begin.other;  // of the previous row
  for (int64_t j = 0; j < dof; ++j) velocities[j] = of_end(begin, 0, j);
  for (int64_t k = 1; k < pieces; ++k) {
    const double before = rates[k - 1], after = rates[k], pivot = 1 / (2 * (before + after) - before * above);
    double* const now = velocities + k * dof;
    for (int64_t j = 0; j < dof; ++j) {
      now[j] = (3 * (before * secant(k - 1, j) + after * secant(k, j)) - before * now[j - dof]) * pivot;
    }
    above = factors[k] = after * pivot;
  }
  // For a single piece whose ends are both without jerk, any velocities with the right mean are possible.
  const double pivot = 1 - end.other * above;
  double* const last = velocities + pieces * dof;
  for (int64_t j = 0; j < dof; ++j) {
    last[j] = pivot == 0 ? secant(pieces - 1, j) : (of_end(end, pieces - 1, j) - end.other * last[j - dof]) / pivot;
  }
  for (int64_t k = pieces - 1; k >= 0; --k) {
    double* const now = velocities + k * dof;
    for (int64_t j = 0; j < dof; ++j) now[j] -= factors[k] * now[j + dof];
  }
}

}  // namespace traj_integrator::retiming
