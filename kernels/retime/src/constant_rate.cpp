// A constant rate of the base law: where to begin with the third order, and what is left where no solution is found.
#include <algorithm>
#include <cmath>
#include <limits>

#include "third_order.h"

namespace traj_integrator::retiming {

double ThirdOrder::largest_constant() const {
  double most = std::numeric_limits<double>::infinity();
  for (int64_t p = 0; p < slow_.padded; ++p) {
    if (slow_.bound[p] > 0) most = std::min(most, 1 / slow_.bound[p]);
  }
  for (int64_t j = 0; j < dof_; ++j) {
    for (int64_t p = 0; p < slow_.padded; ++p) {
      const double q2 = slow_.q2[slow_.at(p, j)] * slow_.scale[p], ratio = std::max(q2 * inverse_[kHighest][j], q2 * inverse_[kLowest][j]);
      if (ratio * most > 1) most = 1 / ratio;
    }
    double steepest = 0;
    for (int64_t p = 0; p < fast_.padded; ++p) {
      steepest = std::max(steepest, std::abs(fast_.q3[fast_.at(p, j)]) * fast_.scale[p]);
    }
    steepest *= inverse_[kJerk][j];
    if (steepest > 0) most = std::min(most, std::pow(steepest, -2.0 / 3.0));
  }
  return std::isfinite(most) ? most : 1.0;
}

void ThirdOrder::keep_rate(const Path& path, const Limits& limits) {
  form(path, limits);
  stretched_ = 1;
  fixed_begin_ = fixed_end_ = slow_only_ = false;
  for (auto& scale : scale_) scale.assign(base.intervals(), 1.0);
  set_scales();
  std::fill(b_.begin(), b_.end(), largest_constant());
  begin(0.01, 0);
  bind_constant();
  set_times();
}

// The multiplier of the row that binds a constant rate: the duration is its -1/2 power, where a row of jerk has its 3/2.
void ThirdOrder::bind_constant() {
  const double rate = b_[0];
  double most = 0, *binding = nullptr, share = 0;
  const auto consider = [&](double ratio, double& multiplier, double of) {
    if (ratio > most) most = ratio, binding = &multiplier, share = of;
  };
  for (int64_t p = 0; p < slow_.count; ++p) {
    consider(rate * slow_.bound[p], slow_.bound_multiplier(p), 1.0 / 2);
    for (int64_t j = 0; j < dof_; ++j) {
      const double value = rate * slow_.q2[slow_.at(p, j)] * slow_.scale[p];
      for (const bool lower : {false, true}) {
        consider(value * inverse_[lower ? kLowest : kHighest][j], slow_.multiplier(p, j, lower), 1.0 / 2);
      }
    }
  }
  for (int64_t p = 0; p < fast_.count; ++p) {
    for (int64_t j = 0; j < dof_; ++j) {
      const double third = fast_.q3[fast_.at(p, j)];
      const double jerk = std::abs(third) * fast_.scale[p] * std::pow(rate, 1.5) * inverse_[kJerk][j];
      consider(std::cbrt(jerk * jerk), fast_.multiplier(p, j, third < 0), 1.0 / 3);
    }
  }
  if (binding != nullptr) *binding = share;
}

}  // namespace traj_integrator::retiming
