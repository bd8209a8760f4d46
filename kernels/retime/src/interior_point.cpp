// The primal-dual interior-point method of the third order.
#include "third_order.h"

#include <algorithm>
#include <cmath>
#include <numeric>

namespace traj_integrator::retiming {
namespace {

// Rounding leaves this much of the dual residual.
constexpr double kLeastResidual = 1e-5;
// Rows with more slack than this part of their limit are left out once it is known where the solution is about.
constexpr double kFar = 0.5;
// Steps of less than this part of what is wanted, of which so many show that it does not come nearer.
constexpr double kShort = 0.1;
constexpr int kMostShort = 12;
// Slacks z at least `floor`, or multipliers l for a barrier, of pairs [.., 4, kLanes].
void fill(Array& pairs, double floor, double barrier) {
  for (size_t k = 0; k < pairs.size(); k += 4 * kLanes) {
    double* const z = pairs.data() + k;
    if (barrier == 0) {
      std::fill(z, z + kLanes, floor);
      std::fill(z + kLanes, z + 4 * kLanes, 0.0);
    } else {
      for (int64_t i = 0; i < kLanes; ++i) z[kLanes + i] = barrier / z[i];
    }
  }
}

}  // namespace

Rows ThirdOrder::rows_of(const Points& points) {
  const bool jerk = &points == &fast_;
  Rows rows{};
  rows.blocks = points.padded / kLanes;
  rows.regular = points.regular;
  rows.dof = dof_;
  rows.interval = points.interval.data();
  for (int i = 0; i < 6; ++i) rows.weight[i] = points.weight[i].data();
  rows.curvature = points.curvature;
  rows.q1 = points.q1.data();
  rows.q2 = points.q2.data();
  rows.q3 = points.q3.data();
  rows.first = first_[jerk].data();
  rows.joint = joint_[jerk].data();
  rows.scale = (jerk ? fast_scale_ : slow_scale_).data();
  rows.upper = (jerk ? inverse_jerk_ : inverse_[0]).data();
  rows.lower = inverse_[1].data();
  rows.pairs = (jerk ? fast_pairs_ : slow_pairs_).data();
  rows.bound = &points == &fine_ ? fine_velocity_bound_.data() : bound_inverse_.data();
  rows.bound_pairs = bound_pairs_.data();
  rows.objective = objective_.data();
  rows.r = r_.data();
  rows.slope_r = slope_r_.data();
  rows.Y = Y_;
  return rows;
}

// Slacks at the rows' values, at least `floor`, and multipliers for a barrier.
void ThirdOrder::begin(double floor, double barrier) {
  Y_ = std::accumulate(b_.begin(), b_.end(), 0.0) / static_cast<double>(unknowns_);
  for (size_t j = 0; j < inverse_jerk_.size(); ++j) inverse_jerk_[j] = inverse_[2][j] * std::sqrt(Y_);
  for (Array* pairs : {&slow_pairs_, &fast_pairs_, &bound_pairs_}) fill(*pairs, floor, 0);
  widens_ = false;
  choose_rows(true);
  sum_up({0, 0, false});
  for (Array* pairs : {&slow_pairs_, &fast_pairs_, &bound_pairs_}) fill(*pairs, floor, barrier);
}

void ThirdOrder::choose_rows(bool everything) {
  for (const bool jerk : {false, true}) {
    const Points& points = jerk ? fast_ : slow_;
    Array& pairs = jerk ? fast_pairs_ : slow_pairs_;
    std::vector<int32_t>&first = first_[jerk], &joint = joint_[jerk];
    first.assign(1, 0);
    joint.clear();
    for (int64_t p = 0; p < points.padded; p += kLanes) {
      for (int64_t j = 0; j < dof_; ++j) {
        double* const pair = pairs.data() + 8 * points.at(p, j);
        bool near = everything;
        for (size_t i = 0; i < kLanes && !near; ++i) {
          const double enough = kFar * (jerk ? r_[static_cast<size_t>(p) + i] : 1);
          near = pair[i] < enough || pair[4 * kLanes + i] < enough;
        }
        if (near) joint.push_back(static_cast<int32_t>(j));
        else std::fill(pair + kLanes, pair + 2 * kLanes, 0.0), std::fill(pair + 5 * kLanes, pair + 6 * kLanes, 0.0);
      }
      first.push_back(static_cast<int32_t>(joint.size()));
    }
  }
}

// Takes a step, and sums up the matrix and the right sides.
void ThirdOrder::sum_up(const Advance& last) {
  for (size_t i = 0; i < b_.size() && last.primal > 0; ++i) b_[i] += last.primal * db_[i];
  Sums sums;
  for (int64_t i = 0; i < kSums; ++i) {
    sums_[i].assign(b_.size() + 2, 0.0);
    sums.of[i] = sums_[i].data() + 2;
  }
  std::fill(sums.gap, sums.gap + kLanes, 0.0);
  std::fill(sums.least, sums.least + kLanes, 1.0);
  row_loops().acceleration_sums(rows_of(slow_), b_.data(), last, sums);
  row_loops().jerk_sums(rows_of(fast_), b_.data(), last, sums);
  gap_ = std::accumulate(sums.gap, sums.gap + kLanes, 0.0);
  least_ = *std::min_element(sums.least, sums.least + kLanes);
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

// The matrix and the right sides over the coefficients: each belongs to three intervals.
void ThirdOrder::gather() {
  const size_t n = b_.size();
  const auto of = [&](int i, size_t k) { return sums_[i].data() + k; };  // of the interval k - 2
  for (size_t k = 0; k < n; ++k) {
    diagonal_[0][k] = *of(0, k + 2) + *of(3, k + 1) + *of(5, k);
    diagonal_[1][k] = *of(1, k + 2) + *of(4, k + 1);
    diagonal_[2][k] = *of(2, k + 2);
    for (int i = 0; i < 3; ++i) right_[i][k] = *of(6 + 3 * i, k + 2) + *of(7 + 3 * i, k + 1) + *of(8 + 3 * i, k);
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

bool ThirdOrder::iterate(double until, bool patient) {
  const size_t n = b_.size();
  const double rows = static_cast<double>(slow_.padded) + 2.0 * kLanes * static_cast<double>(joint_[0].size() + joint_[1].size());
  Advance last{0, 0, widens_};
  double least_step = 1;
  int short_steps = 0;
  widens_ = false;
  for (int step = 0;; ++step) {
    sum_up(last);
    if (!std::isfinite(gap_)) return false;
    if (gap_ < until && least_ > -until) return true;
    if (step == kMostIterations) return gap_ < 1e-2 && least_ > -1e-3;
    ++iterations;
    gather();
    double residual = 0;
    for (size_t i = 0; i < n; ++i) residual = std::max(residual, std::abs(right_[2][i]) * b_[i]);
    double centre = least_step > 0.9 ? 0.05 : least_step > 0.5 ? 0.2 : least_step > 0.1 ? 0.3 : 0.9;
    if (static_cast<double>(n) * residual > std::max(gap_ / 2, kLeastResidual)) {
      centre = careful_ ? 1 : std::max(centre, 0.3);
    }
    const double mu = centre * gap_ / rows;
    for (size_t i = 0; i < n; ++i) db_[i] = right_[0][i] + mu * right_[1][i];
    solve_linear();
    Shrink most{1e-300, 1e-300};
    row_loops().acceleration_steps(rows_of(slow_), b_.data(), db_.data(), mu, most);
    row_loops().jerk_steps(rows_of(fast_), b_.data(), db_.data(), mu, most);
    last = {std::min(1.0, 0.995 / most.z), std::min(1.0, 0.995 / most.l), false};
    least_step = std::min(last.primal, last.dual);
    short_steps += least_step < kShort;
    if (!std::isfinite(least_step) || (!patient && short_steps > kMostShort)) return false;
  }
}

}  // namespace traj_integrator::retiming
