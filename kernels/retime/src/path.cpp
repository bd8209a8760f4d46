#include "path.h"

#include <algorithm>
#include <cmath>
#include <type_traits>

#include "certificate.h"

namespace traj_integrator::retiming {
namespace {

// Rows that are closer to the one before than this part of the longest distance repeat it.
constexpr double kSameRow = 1e-9;

// k! / (k - order)!
constexpr double falling(int k, int order) { return order == 0 ? 1 : k * falling(k - 1, order - 1); }

// A derivative of polynomials at e; coefficients [degree + 1, D].
template <int degree, int order>
void differentiate(const double* c, int64_t dof, double e, double* out, int64_t stride) {
  for (int64_t j = 0; j < dof && out != nullptr; ++j) {
    double sum = falling(degree, order) * c[degree * dof + j];
    for (int k = degree - 1; k >= order; --k) sum = sum * e + falling(k, order) * c[k * dof + j];
    out[j * stride] = sum;
  }
}

}  // namespace

bool Path::build(const PathRows& rows) {
  dof_ = rows.dof;
  choose_rows(rows);
  if (kept_.size() < 2) return false;
  rows.velocity == nullptr ? through_positions(rows) : through_states(rows);
  return true;
}

void Path::choose_rows(const PathRows& rows) {
  const int64_t count = rows.rows, dof = rows.dof;
  const bool own = rows.knots == nullptr;
  kept_.assign(1, 0);
  knots_.assign(1, own ? 0.0 : rows.knots[0]);
  knot_of_row_.assign(count, 0);
  const auto distance = [&](int64_t a, int64_t b) {
    double sum = 0;
    for (int64_t j = 0; j < dof; ++j) {
      const double d = rows.position[a * dof + j] - rows.position[b * dof + j];
      sum += d * d;
    }
    return std::sqrt(sum);
  };
  double longest = 0;
  for (int64_t i = 1; i < count && own; ++i) longest = std::max(longest, distance(i, i - 1));
  for (int64_t i = 1; i < count; ++i) {
    const double length = own ? distance(i, kept_.back()) : 0;
    if (!own || (length > kSameRow * longest && length > 0)) {
      kept_.push_back(i);
      knots_.push_back(own ? knots_.back() + length : rows.knots[i]);
    } else if (i + 1 == count && kept_.size() > 1) {
      kept_.back() = i;  // the last row is met exactly
    }
    knot_of_row_[i] = static_cast<int64_t>(kept_.size()) - 1;
  }
}

// The cubic spline with continuous second derivatives M: tridiagonal in M.
void Path::through_positions(const PathRows& rows) {
  const int64_t n = pieces(), dof = dof_;
  degree_ = 3;
  second_.assign((n + 1) * dof, 0.0);
  factor_.assign(n + 1, 0.0);
  coefficients_.resize(n * 4 * dof);
  const auto row = [&](int64_t i) { return rows.position + kept_[i] * dof; };
  const auto step = [&](int64_t i) { return knots_[i + 1] - knots_[i]; };
  double* const M = second_.data();
  // Forward elimination: M_i = M'_i - factor_i M_(i+1).
  for (int64_t i = rows.rests ? 0 : 1; i <= (rows.rests ? n : n - 1); ++i) {
    const double before = i > 0 ? step(i - 1) : 0, after = i < n ? step(i) : 0;
    const double pivot = 2 * (before + after) - (i > 0 ? before * factor_[i - 1] : 0);
    factor_[i] = after / pivot;
    for (int64_t j = 0; j < dof; ++j) {
      const double slope_after = i < n ? (row(i + 1)[j] - row(i)[j]) / after : 0;
      const double slope_before = i > 0 ? (row(i)[j] - row(i - 1)[j]) / before : 0;
      const double right = 6 * (slope_after - slope_before) - (i > 0 ? before * M[(i - 1) * dof + j] : 0);
      M[i * dof + j] = right / pivot;
    }
  }
  for (int64_t i = n - 1; i >= 0; --i) {
    for (int64_t j = 0; j < dof; ++j) M[i * dof + j] -= factor_[i] * M[(i + 1) * dof + j];
  }
  for (int64_t i = 0; i < n; ++i) {
    const double h = step(i);
    double* const c = &coefficients_[i * 4 * dof];
    for (int64_t j = 0; j < dof; ++j) {
      const double a = M[i * dof + j], b = M[(i + 1) * dof + j];
      c[j] = row(i)[j];
      c[dof + j] = (row(i + 1)[j] - row(i)[j]) / h - h * (2 * a + b) / 6;
      c[2 * dof + j] = a / 2;
      c[3 * dof + j] = (b - a) / (6 * h);
    }
  }
}

// What the controller plays between states: cubics, or quintics where there are accelerations.
void Path::through_states(const PathRows& rows) {
  degree_ = rows.acceleration == nullptr ? 3 : kDegree;
  coefficients_.resize(pieces() * (degree_ + 1) * dof_);
  double* to = coefficients_.data();
  for (int64_t i = 0; i < pieces(); ++i, to += (degree_ + 1) * dof_) {
    for (int64_t j = 0; j < dof_; ++j) {
      const int64_t a = kept_[i] * dof_ + j, b = kept_[i + 1] * dof_ + j;
      const auto at = [](const double* of, int64_t index) { return of == nullptr ? nullptr : of + index; };
      double c[kDegree + 1];
      piece_between(knots_[i + 1] - knots_[i], rows.position[a], rows.position[b], at(rows.velocity, a), at(rows.velocity, b),
                    at(rows.acceleration, a), at(rows.acceleration, b), c);
      for (int64_t k = 0; k <= degree_; ++k) to[k * dof_ + j] = c[k];
    }
  }
}

void Path::evaluate(int64_t piece, double s, double* q, double* q1, double* q2, double* q3, int64_t stride) const {
  const double e = s - knots_[piece], *const c = &coefficients_[piece * (degree_ + 1) * dof_];
  const auto all = [&]<int degree>(std::integral_constant<int, degree>) {
    differentiate<degree, 0>(c, dof_, e, q, stride);
    differentiate<degree, 1>(c, dof_, e, q1, stride);
    differentiate<degree, 2>(c, dof_, e, q2, stride);
    differentiate<degree, 3>(c, dof_, e, q3, stride);
  };
  degree_ == 3 ? all(std::integral_constant<int, 3>()) : all(std::integral_constant<int, kDegree>());
}

}  // namespace traj_integrator::retiming
