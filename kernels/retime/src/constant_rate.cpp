// A constant rate of the base law: the start of the third order's iterations, and the result if no solution is found.
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
  slow_.Y = std::numeric_limits<double>::quiet_NaN();  // no optimum: another base law would give another rate
  set_times();
}

}  // namespace traj_integrator::retiming
