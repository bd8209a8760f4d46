#include "path.h"

#include <algorithm>
#include <cmath>

#include "certificate.h"

namespace traj_integrator::retiming {
namespace {

// Rows that are closer to the one before than this part of the longest distance repeat it.
constexpr double kSameRow = 1e-9;

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
  kept_.assign(1, 0);
  knots_.assign(1, rows.knots == nullptr ? 0.0 : rows.knots[0]);
  knot_of_row_.assign(static_cast<size_t>(count), 0);
  if (rows.knots != nullptr) {
    for (int64_t i = 1; i < count; ++i) {
      kept_.push_back(i);
      knots_.push_back(rows.knots[i]);
      knot_of_row_[static_cast<size_t>(i)] = i;
    }
    return;
  }
  const auto distance = [&](int64_t a, int64_t b) {
    double sum = 0;
    for (int64_t j = 0; j < dof; ++j) {
      const double d = rows.position[a * dof + j] - rows.position[b * dof + j];
      sum += d * d;
    }
    return std::sqrt(sum);
  };
  double longest = 0;
  for (int64_t i = 1; i < count; ++i) longest = std::max(longest, distance(i, i - 1));
  for (int64_t i = 1; i < count; ++i) {
    const double length = distance(i, kept_.back());
    if (length > kSameRow * longest && length > 0) {
      kept_.push_back(i);
      knots_.push_back(knots_.back() + length);
    } else if (i + 1 == count && kept_.size() > 1) {
      kept_.back() = i;  // the last row is met exactly
    }
    knot_of_row_[static_cast<size_t>(i)] = static_cast<int64_t>(kept_.size()) - 1;
  }
}

// The cubic spline with continuous second derivatives M: tridiagonal in M.
void Path::through_positions(const PathRows& rows) {
  const int64_t n = pieces(), dof = dof_;
  degree_ = 3;
  second_.assign(static_cast<size_t>((n + 1) * dof), 0.0);
  factor_.assign(static_cast<size_t>(n + 1), 0.0);
  coefficients_.resize(static_cast<size_t>(n * 4 * dof));
  const auto row = [&](int64_t i) { return rows.position + kept_[static_cast<size_t>(i)] * dof; };
  const auto step = [&](int64_t i) { return knots_[static_cast<size_t>(i) + 1] - knots_[static_cast<size_t>(i)]; };
  double* const M = second_.data();
  // Forward elimination: M_i = M'_i - factor_i M_(i+1).
  for (int64_t i = rows.rests ? 0 : 1; i <= (rows.rests ? n : n - 1); ++i) {
    const double before = i > 0 ? step(i - 1) : 0, after = i < n ? step(i) : 0;
    const double pivot = 2 * (before + after) - (i > 0 ? before * factor_[static_cast<size_t>(i) - 1] : 0);
    factor_[static_cast<size_t>(i)] = after / pivot;
    for (int64_t j = 0; j < dof; ++j) {
      const double slope_after = i < n ? (row(i + 1)[j] - row(i)[j]) / after : 0;
      const double slope_before = i > 0 ? (row(i)[j] - row(i - 1)[j]) / before : 0;
      const double right = 6 * (slope_after - slope_before) - (i > 0 ? before * M[(i - 1) * dof + j] : 0);
      M[i * dof + j] = right / pivot;
    }
  }
  for (int64_t i = n - 1; i >= 0; --i) {
    for (int64_t j = 0; j < dof; ++j) M[i * dof + j] -= factor_[static_cast<size_t>(i)] * M[(i + 1) * dof + j];
  }
  for (int64_t i = 0; i < n; ++i) {
    const double h = step(i);
    double* const c = coefficients_.data() + i * 4 * dof;
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
  const int64_t n = pieces(), dof = dof_;
  degree_ = rows.acceleration == nullptr ? 3 : 5;
  coefficients_.resize(static_cast<size_t>(n * (degree_ + 1) * dof));
  double* to = coefficients_.data();
  for (int64_t i = 0; i < n; ++i, to += (degree_ + 1) * dof) {
    const double h = knots_[static_cast<size_t>(i) + 1] - knots_[static_cast<size_t>(i)];
    for (int64_t j = 0; j < dof; ++j) {
      const int64_t a = kept_[static_cast<size_t>(i)] * dof + j, b = kept_[static_cast<size_t>(i) + 1] * dof + j;
      const double *const v = rows.velocity, *const w = rows.acceleration;
      double c[kDegree + 1];
      piece_between(h, rows.position[a], rows.position[b], v + a, v + b, w == nullptr ? w : w + a, w == nullptr ? w : w + b, c);
      for (int64_t k = 0; k <= degree_; ++k) to[k * dof + j] = c[k];
    }
  }
}

int64_t Path::piece_at(double s) const {
  const auto found = std::upper_bound(knots_.begin() + 1, knots_.end() - 1, s);
  return static_cast<int64_t>(found - knots_.begin()) - 1;
}

void Path::evaluate(int64_t piece, double s, double* q, double* q1, double* q2, double* q3, int64_t stride) const {
  const double e = s - knots_[static_cast<size_t>(piece)];
  const double* const c = coefficients_.data() + piece * (degree_ + 1) * dof_;
  if (degree_ == 3) {
    for (int64_t j = 0; j < dof_; ++j) {
      const double c1 = c[dof_ + j], c2 = c[2 * dof_ + j], c3 = c[3 * dof_ + j];
      if (q != nullptr) q[j * stride] = c[j] + e * (c1 + e * (c2 + e * c3));
      if (q1 != nullptr) q1[j * stride] = c1 + e * (2 * c2 + e * 3 * c3);
      if (q2 != nullptr) q2[j * stride] = 2 * c2 + e * 6 * c3;
      if (q3 != nullptr) q3[j * stride] = 6 * c3;
    }
    return;
  }
  for (int64_t j = 0; j < dof_; ++j) {
    const auto k = [&](int64_t n) { return c[n * dof_ + j]; };
    if (q != nullptr) q[j * stride] = k(0) + e * (k(1) + e * (k(2) + e * (k(3) + e * (k(4) + e * k(5)))));
    if (q1 != nullptr) q1[j * stride] = k(1) + e * (2 * k(2) + e * (3 * k(3) + e * (4 * k(4) + e * 5 * k(5))));
    if (q2 != nullptr) q2[j * stride] = 2 * k(2) + e * (6 * k(3) + e * (12 * k(4) + e * 20 * k(5)));
    if (q3 != nullptr) q3[j * stride] = 6 * k(3) + e * (24 * k(4) + e * 60 * k(5));
  }
}

}  // namespace traj_integrator::retiming
