#include "certificate.h"

#include <algorithm>
#include <cmath>

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

// Whether the Bernstein coefficients show that the polynomial stays within what is already known.
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
  double c[kOrders + 1][kDegree + 1], power = 1;
  for (int k = 0; k <= kDegree; ++k, power *= span) c[0][k] = coefficients[k] * power;
  for (int order = 1; order <= kOrders; ++order) {
    for (int k = 0; k + order <= kDegree; ++k) c[order][k] = (k + 1) * c[order - 1][k + 1];
  }
  // Where each order turns, found from the slopes' turns on, and as far down as they are needed.
  double turns[kOrders + 1][kDegree];
  int count[kOrders + 1] = {}, known = kOrders;
  const double scale[kOrders] = {1, 1 / span, 1 / (span * span), 1 / (span * span * span)};
  for (int order = kOrders - 1; order >= 0; --order) {
    const int degree = kDegree - order;
    if (low[order] == -INFINITY && high[order] == INFINITY) continue;
    widen(c[order][0] * scale[order], low[order], high[order]);
    widen(value(c[order], degree, 1) * scale[order], low[order], high[order]);
    if (surely_within(c[order], degree, scale[order], low[order], high[order])) continue;
    for (; known > order; --known) count[known - 1] = zeros(c[known], kDegree - known, turns[known], count[known], turns[known - 1]);
    for (int k = 0; k < count[order]; ++k) {
      widen(value(c[order], degree, turns[order][k]) * scale[order], low[order], high[order]);
    }
  }
}

void piece_between(double span, double p0, double p1, const double* v0, const double* v1, const double* a0,
                   const double* a1, double* coefficients) {
  double* const c = coefficients;
  const double h = span, p = p1 - p0;
  c[0] = p0;
  c[1] = c[2] = c[3] = c[4] = c[5] = 0;
  if (v0 == nullptr) {
    c[1] = p / h;
    return;
  }
  const double V0 = *v0 * h, V1 = *v1 * h;
  c[1] = *v0;
  if (a0 == nullptr) {
    c[2] = (3 * p - 2 * V0 - V1) / (h * h);
    c[3] = (-2 * p + V0 + V1) / (h * h * h);
    return;
  }
  const double A0 = *a0 * h * h, A1 = *a1 * h * h;
  c[2] = *a0 / 2;
  c[3] = (10 * p - 6 * V0 - 4 * V1 - 1.5 * A0 + 0.5 * A1) / (h * h * h);
  c[4] = (-15 * p + 8 * V0 + 7 * V1 + 1.5 * A0 - A1) / (h * h * h * h);
  c[5] = (6 * p - 3 * V0 - 3 * V1 - 0.5 * A0 + 0.5 * A1) / (h * h * h * h * h);
}

}  // namespace traj_integrator::retiming
