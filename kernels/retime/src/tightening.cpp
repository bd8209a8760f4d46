// Limits of single intervals, lowered where they are exceeded between the points at which rows are formed.
#include "third_order.h"

#include <algorithm>
#include <cmath>

namespace traj_integrator::retiming {
namespace {

constexpr double kMostAtOnce = 1.3;   // by which a limit is lowered on the way

}  // namespace

// The parts of the limits that may be used at the points; rows of coefficients that are all given are taken out.
void ThirdOrder::set_scales() {
  const int64_t N = base.intervals();
  const auto at = [&](const std::vector<double>& scale, int64_t k, double e) {
    const double here = scale[static_cast<size_t>(k)];
    return e == 0 && k > 0 ? std::min(here, scale[static_cast<size_t>(k) - 1]) : here;
  };
  slow_scale_.resize(static_cast<size_t>(slow_.padded));
  bound_inverse_.resize(slow_scale_.size());
  for (size_t p = 0; p < slow_scale_.size(); ++p) {
    const int64_t k = slow_.interval[p];
    const double e = slow_.part[p], v = at(velocity_scale_, k, e);
    const bool given = (fixed_begin_ && k == 0 && e == 0) || (fixed_end_ && k + 1 == N && e == 1);
    slow_scale_[p] = given ? 0 : 1 / at(acceleration_scale_, k, e);
    bound_inverse_[p] = given ? 0 : std::max(slow_only_ ? 1.0 : 0.0, velocity_bound_[p] / (v * v));
    if (slow_only_ && ((fixed_begin_ && k == 0) || (fixed_end_ && k + 1 == N))) bound_inverse_[p] *= 1 - 1e-9;
  }
  fast_scale_.resize(static_cast<size_t>(fast_.padded));
  for (size_t p = 0; p < fast_scale_.size(); ++p) fast_scale_[p] = 1 / jerk_scale_[static_cast<size_t>(fast_.interval[p])];
}

bool ThirdOrder::tighten(const std::vector<double>& ratios) {
  const auto lower = [](double& scale, double ratio) {
    if (ratio > 1) scale /= ratio * kBeyond;
  };
  for (size_t k = 0; k < velocity_scale_.size(); ++k) {
    lower(velocity_scale_[k], ratios[3 * k]);
    lower(acceleration_scale_[k], ratios[3 * k + 1]);
    lower(jerk_scale_[k], ratios[3 * k + 2]);
  }
  const std::vector<double> kept = b_;
  for (double& b : b_) b *= stretched_ * stretched_;
  set_scales();
  // From the last solution; slacks are wider where the ends leave less room.
  begin(fixed_begin_ || fixed_end_ ? 1e-3 : 1e-4, 3e-4 / static_cast<double>(4 * base.intervals()));
  choose_rows(false);
  ++rounds;
  careful_ = false;
  const bool solved = iterate(tolerance, true);
  if (solved) stretched_ = 1;
  else b_ = kept;
  set_times();
  return solved;
}

void ThirdOrder::tighten_between() {
  const size_t N = static_cast<size_t>(base.intervals());
  std::vector<double> worst[3];
  for (auto& each : worst) each.assign(N, 0.0);
  double* const to[3] = {worst[0].data(), worst[1].data(), worst[2].data()};
  row_loops().peaks(rows_of(fine_), inverse_[2].data(), b_.data(), to);
  for (size_t k = 0; k < N; ++k) {
    const double v = std::sqrt(worst[0][k]), a = worst[1][k], j = worst[2][k];
    if (v > kHeld) velocity_scale_[k] /= std::min(v, kMostAtOnce);
    if (a > kHeld) acceleration_scale_[k] /= std::min(a, kMostAtOnce);
    if (j > kHeld) jerk_scale_[k] /= std::min(j, kMostAtOnce);
  }
}

}  // namespace traj_integrator::retiming
