// The primal-dual interior-point method of the third order.
#include "third_order.h"

#include <algorithm>
#include <cmath>
#include <numeric>

namespace traj_integrator::retiming {
namespace {

constexpr int kMostIterations = 60;
// Rounding leaves this much of the dual residual.
constexpr double kLeastResidual = 1e-5;
// Steps of less than this part of what is wanted, of which so many show that it does not come nearer.
constexpr double kShort = 0.1;
constexpr int kMostShort = 12;

}  // namespace

void ThirdOrder::begin(double floor, double barrier) {
  const double Y = std::accumulate(b_.begin(), b_.end(), 0.0) / static_cast<double>(b_.size());
  for (int64_t j = 0; j < dof_; ++j) inverse_jerk_[j] = inverse_[kJerk][j] * std::sqrt(Y);
  widens_ = false;
  for (Points* const points : {&slow_, &fast_}) {
    points->Y = Y;
    points->fill(floor, 0);
    points->choose_rows(true);
  }
  sum_up({0, 0, false});
  for (Points* const points : {&slow_, &fast_}) points->fill(floor, barrier);
}

void ThirdOrder::sum_up(const Advance& last) {
  for (size_t i = 0; i < b_.size() && last.primal > 0; ++i) b_[i] += last.primal * db_[i];
  Sums sums;
  for (int64_t i = 0; i < kSums; ++i) {
    sums_[i].assign(b_.size() + 2, 0.0);
    sums.of[i] = sums_[i].data() + 2;
  }
  std::fill_n(sums.gap, kLanes, 0.0);
  std::fill_n(sums.least, kLanes, 1.0);
  for (const Points* const points : {&slow_, &fast_}) row_loops().sum_up(*points, b_.data(), last, sums);
  gap_ = std::accumulate(sums.gap, sums.gap + kLanes, 0.0);
  least_ = *std::min_element(sums.least, sums.least + kLanes);
}

void ThirdOrder::solve_linear() {
  const int64_t n = static_cast<int64_t>(b_.size());
  double *const d = diagonal_[0].data(), *const e = diagonal_[1].data(), *const f = diagonal_[2].data();
  double* const x = db_.data();
  // Positive definite: without pivoting. e and f become the factors below the diagonal; behind the last row they are 0.
  for (int64_t i = 0; i < n; ++i) {
    const double inverse = 1 / d[i], first = e[i] * inverse, second = f[i] * inverse;
    d[i + 1] -= first * e[i];
    e[i + 1] -= first * f[i];
    d[i + 2] -= second * f[i];
    x[i + 1] -= first * x[i];
    x[i + 2] -= second * x[i];
    x[i] *= inverse;
    e[i] = first;
    f[i] = second;
  }
  for (int64_t i = n; i-- > 0;) x[i] -= e[i] * x[i + 1] + f[i] * x[i + 2];
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
  const double rows = static_cast<double>(slow_.padded + 2 * kLanes * (slow_.formed() + fast_.formed()));
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
    for (const Points* const points : {&slow_, &fast_}) row_loops().step(*points, b_.data(), db_.data(), mu, most);
    last = {std::min(1.0, 0.995 / most.z), std::min(1.0, 0.995 / most.l), false};
    least_step = std::min(last.primal, last.dual);
    short_steps += least_step < kShort;
    if (!std::isfinite(least_step) || (!patient && short_steps > kMostShort)) return false;
  }
}

}  // namespace traj_integrator::retiming
