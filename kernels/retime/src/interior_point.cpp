// The primal-dual interior-point method of the third order.
#include "third_order.h"

#include <algorithm>
#include <cmath>

namespace traj_integrator::retiming {
namespace {

// Rounding leaves this much of the dual residual.
constexpr double kLeastResidual = 1e-5;
// By how much a row may be missed before its slack is widened: steps along small ones would be short.
constexpr double kFarOff = 0.1;

double sum(const std::vector<double>& values, int64_t count) {
  double total = 0;
  for (int64_t i = 0; i < count; ++i) total += values[static_cast<size_t>(i)];
  return total;
}

}  // namespace

Sums ThirdOrder::sums_of(std::vector<double>* work) {
  Sums sums;
  for (int i = 0; i < 6; ++i) sums.matrix[i] = work[kMatrix + i].data();
  for (int i = 0; i < 9; ++i) sums.right[i] = work[kRight + i].data();
  sums.gap = work[kGap].data();
  sums.least = work[kLeast].data();
  return sums;
}

State ThirdOrder::state_of(const std::vector<double>* work) {
  return {work[kY].data(), work[kU].data(), work[kW].data(), work[kR].data(), work[kSlope].data()};
}

Rows ThirdOrder::rows_of(bool jerk) {
  const Points& points = jerk ? fast_ : slow_;
  Rows rows{};
  rows.n = points.padded;
  rows.dof = dof_;
  rows.q1 = points.q1.data();
  rows.q2 = points.q2.data();
  rows.q3 = points.q3.data();
  rows.scale = (jerk ? fast_scale_ : slow_scale_).data();
  rows.upper = (jerk ? inverse_jerk_ : inverse_[0]).data();
  rows.lower = (jerk ? inverse_[2] : inverse_[1]).data();
  for (int side = 0; side < 2; ++side) {
    std::vector<double>* const m = multipliers_ + (jerk ? 8 : 0) + 4 * side;
    rows.z[side] = m[0].data();
    rows.l[side] = m[1].data();
    rows.dz[side] = m[2].data();
    rows.dl[side] = m[3].data();
  }
  return rows;
}

// Slacks at the rows' values, at least `floor`, and multipliers for a barrier.
void ThirdOrder::begin(double floor, double barrier) {
  Y_ = sum(b_, unknowns_) / static_cast<double>(unknowns_);
  for (size_t j = 0; j < inverse_jerk_.size(); ++j) inverse_jerk_[j] = inverse_[2][j] * std::sqrt(Y_);
  const auto fill = [](std::vector<double>& values, double x) { std::fill(values.begin(), values.end(), x); };
  for (int i = 0; i < 16; i += 4) {
    fill(multipliers_[i], floor);
    for (int k = 1; k < 4; ++k) fill(multipliers_[i + k], 0);
  }
  fill(bound_z_, floor);
  for (auto* each : {&bound_l_, &bound_dz_, &bound_dl_}) fill(*each, 0);
  fill(db_, 0);
  sum_up(0, 0);
  for (int i = 0; i < 16; i += 4) {
    for (size_t k = 0; k < multipliers_[i].size(); ++k) multipliers_[i + 1][k] = barrier / multipliers_[i][k];
  }
  for (size_t k = 0; k < bound_z_.size(); ++k) bound_l_[k] = barrier / bound_z_[k];
}

// After limits were lowered: room for the slacks of rows that are not kept any more, at the same product with the multiplier.
void ThirdOrder::make_room() {
  const auto widen = [](double s, double& z, double& l) {
    if (s >= -kFarOff || z >= -s) return;
    l *= z / -s;
    z = -s;
  };
  slow_.spread(b_, work_slow_[kY].data(), work_slow_[kU].data(), work_slow_[kW].data());
  fast_.spread(b_, work_fast_[kY].data(), work_fast_[kU].data(), work_fast_[kW].data());
  for (const bool jerk : {false, true}) {
    const Rows rows = rows_of(jerk);
    const double *const y = (jerk ? work_fast_ : work_slow_)[kY].data(), *const u = (jerk ? work_fast_ : work_slow_)[kU].data();
    const double* const w = work_fast_[kW].data();
    for (int64_t j = 0; j < dof_; ++j) {
      for (int64_t p = 0; p < rows.n; ++p) {
        const int64_t k = j * rows.n + p;
        if (jerk) {
          const double value = (rows.q3[k] * y[p] + 3 * rows.q2[k] * u[p] + rows.q1[k] * w[p]) * rows.upper[j] * rows.scale[p];
          const double r = std::sqrt(Y_ / y[p]);
          widen(r - value, rows.z[0][k], rows.l[0][k]);
          widen(r + value, rows.z[1][k], rows.l[1][k]);
        } else {
          const double value = (rows.q2[k] * y[p] + rows.q1[k] * u[p]) * rows.scale[p];
          widen(1 - value * rows.upper[j], rows.z[0][k], rows.l[0][k]);
          widen(1 - value * rows.lower[j], rows.z[1][k], rows.l[1][k]);
        }
      }
    }
  }
  for (size_t p = 0; p < bound_z_.size(); ++p) widen(1 - work_slow_[kY][p] * bound_inverse_[p], bound_z_[p], bound_l_[p]);
}

// Takes a step, and sums up the matrix and the right sides.
void ThirdOrder::sum_up(double primal, double dual) {
  const RowLoops& loops = row_loops();
  for (size_t i = 0; i < b_.size(); ++i) b_[i] += primal * db_[i];
  slow_.spread(b_, work_slow_[kY].data(), work_slow_[kU].data(), work_slow_[kW].data());
  fast_.spread(b_, work_fast_[kY].data(), work_fast_[kU].data(), work_fast_[kW].data());
  loops.rates(slow_.padded, work_slow_[kY].data(), Y_, work_slow_[kR].data(), work_slow_[kSlope].data());
  loops.rates(fast_.padded, work_fast_[kY].data(), Y_, work_fast_[kR].data(), work_fast_[kSlope].data());
  const Sums slow = sums_of(work_slow_), fast = sums_of(work_fast_);
  loops.acceleration_sums(rows_of(false), state_of(work_slow_), primal, dual, slow);
  loops.jerk_sums(rows_of(true), state_of(work_fast_), primal, dual, fast);

  // Velocity rows and the objective depend on y only.
  const int64_t N = base.intervals();
  const double each = 1.0 / static_cast<double>((kSlowParts + 1) * N);
  for (int64_t p = 0; p < slow_.padded; ++p) {
    const size_t k = static_cast<size_t>(p);
    const double y = work_slow_[kY][k], inverse = bound_inverse_[k], s = 1 - y * inverse;
    const double z = std::max(bound_z_[k] + primal * bound_dz_[k], s), l = bound_l_[k] + dual * bound_dl_[k];
    bound_z_[k] = z;
    bound_l_[k] = l;
    const double theta = l / z;
    slow.matrix[0][p] += theta * inverse * inverse;
    slow.right[0][p] -= inverse * (l - theta * s);
    slow.right[3][p] -= inverse / z;
    slow.right[6][p] -= inverse * l;
    slow.gap[p] += z * l;
    slow.least[p] = std::min(slow.least[p], s);
    if (p <= kSlowParts * N) {  // four points in each interval: those at nodes belong to two
      const double weight = p > 0 && p < N ? 2 * each : each, r = work_slow_[kR][k];
      const double slope = weight * work_slow_[kSlope][k];  // of the objective
      slow.matrix[0][p] += weight * 0.75 * r / (y * y);
      slow.right[0][p] -= slope;
      slow.right[6][p] -= slope;
    }
  }
}

void ThirdOrder::solve_linear() {
  const size_t n = b_.size();
  double *const d = diagonal_[0].data(), *const e = diagonal_[1].data(), *const f = diagonal_[2].data();
  double* const x = db_.data();
  // Positive definite: without pivoting. e and f become the factors below the diagonal.
  for (size_t i = 0; i < n; ++i) {
    const double inverse = 1 / d[i];
    if (i + 1 < n) {
      const double first = e[i] * inverse;
      d[i + 1] -= first * e[i];
      if (i + 2 < n) {
        const double second = f[i] * inverse;
        e[i + 1] -= first * f[i];
        d[i + 2] -= second * f[i];
        x[i + 2] -= second * x[i];
        f[i] = second;
      }
      x[i + 1] -= first * x[i];
      e[i] = first;
    }
    x[i] *= inverse;
  }
  for (size_t i = n; i-- > 0;) {
    if (i + 1 < n) x[i] -= e[i] * x[i + 1];
    if (i + 2 < n) x[i] -= f[i] * x[i + 2];
  }
}

// The matrix and the right sides over the coefficients, from the sums at the points.
void ThirdOrder::gather() {
  const RowLoops& loops = row_loops();
  const size_t n = b_.size();
  for (int i = 0; i < 3; ++i) {
    std::fill(diagonal_[i].begin(), diagonal_[i].end(), 0.0);
    std::fill(right_[i].begin(), right_[i].end(), 0.0);
  }
  for (const bool jerk : {false, true}) {
    const Points& points = jerk ? fast_ : slow_;
    const Sums sums = sums_of(jerk ? work_fast_ : work_slow_);
    const double* weights[6];
    for (int i = 0; i < 6; ++i) weights[i] = points.weight[i].data();
    loops.to_coefficients(points.padded, weights, points.curvature, jerk, sums);
    const int64_t regular = points.blocks * points.block_length;
    for (int64_t block = 0; block < regular; block += points.block_length) {  // one interval after the other
      const auto add = [&](double* to, const double* from) {
        for (int64_t k = 0; k < points.block_length; ++k) to[k] += from[k];
      };
      constexpr int kDiagonal[] = {0, 1, 2, 0, 1, 0}, kShift[] = {0, 0, 0, 1, 1, 2};
      for (int i = 0; i < 6; ++i) add(diagonal_[kDiagonal[i]].data() + kShift[i], sums.matrix[i] + block);
      for (int i = 0; i < 9; ++i) add(right_[i / 3].data() + i % 3, sums.right[i] + block);
    }
    for (int64_t p = regular; p < points.padded; ++p) {
      const size_t k = static_cast<size_t>(points.interval[static_cast<size_t>(p)]);
      diagonal_[0][k] += sums.matrix[0][p];
      diagonal_[1][k] += sums.matrix[1][p];
      diagonal_[2][k] += sums.matrix[2][p];
      diagonal_[0][k + 1] += sums.matrix[3][p];
      diagonal_[1][k + 1] += sums.matrix[4][p];
      diagonal_[0][k + 2] += sums.matrix[5][p];
      for (size_t a = 0; a < 3; ++a) {
        for (size_t i = 0; i < 3; ++i) right_[i][k + a] += sums.right[3 * i + a][p];
      }
    }
  }
  const auto fix = [&](size_t i) {
    diagonal_[0][i] = 1;
    diagonal_[1][i] = diagonal_[2][i] = 0;
    if (i > 0) diagonal_[1][i - 1] = 0;
    if (i > 1) diagonal_[2][i - 2] = 0;
    for (auto& right : right_) right[i] = 0;
  };
  if (fixed_begin_) fix(0), fix(1);
  if (fixed_end_) fix(n - 1), fix(n - 2);
}

void ThirdOrder::find_step(double mu, double* most_z, double* most_l) {
  const RowLoops& loops = row_loops();
  double shrink_z = 1e-300, shrink_l = 1e-300;
  for (const bool jerk : {false, true}) {
    const Points& points = jerk ? fast_ : slow_;
    std::vector<double>* const work = jerk ? work_fast_ : work_slow_;
    points.spread(db_, work[kStepY].data(), work[kStepU].data(), work[kStepW].data());
    const Step by{work[kStepY].data(), work[kStepU].data(), work[kStepW].data()};
    const Ratios ratios{work[kShrinkZ].data(), work[kShrinkL].data()};
    (jerk ? loops.jerk_steps : loops.acceleration_steps)(rows_of(jerk), state_of(work), by, mu, ratios);
    for (size_t p = 0; p < static_cast<size_t>(points.padded); ++p) {
      shrink_z = std::max(shrink_z, work[kShrinkZ][p]);
      shrink_l = std::max(shrink_l, work[kShrinkL][p]);
    }
  }
  for (size_t p = 0; p < bound_z_.size(); ++p) {
    const double z = bound_z_[p], l = bound_l_[p], inverse = bound_inverse_[p];
    const double next = 1 - (work_slow_[kY][p] + work_slow_[kStepY][p]) * inverse;
    bound_dz_[p] = next - z;
    bound_dl_[p] = (mu - l * next) / z;
    shrink_z = std::max(shrink_z, 1 - next / z);
    shrink_l = std::max(shrink_l, -bound_dl_[p] / l);
  }
  *most_z = shrink_z;
  *most_l = shrink_l;
}

bool ThirdOrder::iterate(int most, double until) {
  const size_t n = b_.size();
  const double rows = static_cast<double>((2 * dof_ + 1) * slow_.padded + 2 * dof_ * fast_.padded);
  double primal = 0, dual = 0, least_step = 1;
  for (int step = 0;; ++step) {
    sum_up(primal, dual);
    const double gap = sum(work_slow_[kGap], slow_.padded) + sum(work_fast_[kGap], fast_.padded);
    double least = 1;
    for (int64_t p = 0; p < slow_.padded; ++p) least = std::min(least, work_slow_[kLeast][static_cast<size_t>(p)]);
    for (int64_t p = 0; p < fast_.padded; ++p) least = std::min(least, work_fast_[kLeast][static_cast<size_t>(p)]);
    if (!std::isfinite(gap)) return false;
    if (gap < until && least > -until) return true;
    if (step == most) return gap < 1e-2 && least > -1e-3;
    ++iterations;
    gather();
    double residual = 0;
    for (size_t i = 0; i < n; ++i) residual = std::max(residual, std::abs(right_[2][i]) * b_[i]);
    double centre = least_step > 0.9 ? 0.05 : least_step > 0.5 ? 0.2 : least_step > 0.1 ? 0.5 : 0.9;
    if (static_cast<double>(n) * residual > std::max(gap / 2, kLeastResidual)) {
      centre = careful_ ? 1 : std::max(centre, 0.3);
    }
    const double mu = centre * gap / rows;
    for (size_t i = 0; i < n; ++i) db_[i] = right_[0][i] + mu * right_[1][i];
    solve_linear();
    double shrink_z, shrink_l;
    find_step(mu, &shrink_z, &shrink_l);
    primal = std::min(1.0, 0.995 / shrink_z);
    dual = std::min(1.0, 0.995 / shrink_l);
    least_step = std::min(primal, dual);
    if (!std::isfinite(primal) || !std::isfinite(dual)) return false;
  }
}

}  // namespace traj_integrator::retiming
