// Limits of single intervals, lowered where they are exceeded between the points at which rows are formed.
#include "third_order.h"

#include <algorithm>
#include <cmath>

namespace traj_integrator::retiming {
namespace {

constexpr double kBeyond = 1 + 1e-5;  // of a ratio, by which a limit is lowered: the next one is not above 1 again
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
  begin(1e-3, 3e-4 / static_cast<double>(4 * base.intervals()));  // from the last solution
  ++rounds;
  const bool solved = iterate(kMostIterations, tolerance);
  if (solved) stretched_ = 1;
  else b_ = kept;
  set_times();
  return solved;
}

void ThirdOrder::tighten_between() {
  const RowLoops& loops = row_loops();
  const int64_t N = base.intervals(), n = fine_.padded;
  std::vector<double>* const work = work_fast_;
  fine_.spread(b_, work[kY].data(), work[kU].data(), work[kW].data());
  for (size_t p = 0; p < static_cast<size_t>(n); ++p) work[kR][p] = std::sqrt(work[kY][p]);
  Rows rows{};
  rows.n = n;
  rows.dof = dof_;
  rows.q1 = fine_.q1.data();
  rows.q2 = fine_.q2.data();
  rows.q3 = fine_.q3.data();
  ratio_.resize(static_cast<size_t>(2 * dof_ * n));
  std::vector<double> worst[3];
  for (auto& each : worst) each.assign(static_cast<size_t>(N), 0.0);
  for (size_t p = 0; p < static_cast<size_t>(n); ++p) {
    double& at = worst[0][static_cast<size_t>(fine_.interval[p])];
    at = std::max(at, work[kY][p] * fine_velocity_bound_[p]);
  }
  for (double& each : worst[0]) each = std::sqrt(each);
  for (int kind = 1; kind < 3; ++kind) {
    rows.upper = inverse_[0].data();
    rows.lower = inverse_[kind].data();
    kind == 1 ? loops.acceleration_ratios(rows, state_of(work), ratio_.data())
              : loops.jerk_ratios(rows, state_of(work), work[kR].data(), ratio_.data());
    std::vector<double>& most = worst[kind];
    for (int64_t row = 0; row < 2 * dof_; ++row) {
      const double* const at = ratio_.data() + row * n;
      for (int64_t e = 0; e < kFineParts; e += 2) {  // the peak of the parabola through three neighbours
        const double *const a = at + e * N, *const b = a + N, *const c = b + N;
        for (int64_t k = 0; k < N; ++k) {
          const double curvature = a[k] - 2 * b[k] + c[k], slope = (c[k] - a[k]) / 2;
          const double high = std::max(std::max(a[k], b[k]), c[k]);
          const double bend = std::min(curvature, -1e-300), turn = std::abs(slope) < -bend ? slope : 0.0;
          most[static_cast<size_t>(k)] = std::max(most[static_cast<size_t>(k)], std::max(high, b[k] - turn * turn / (2 * bend)));
        }
      }
      for (int64_t p = (kFineParts + 1) * N; p < n; ++p) {
        double& of = most[static_cast<size_t>(fine_.interval[static_cast<size_t>(p)])];
        of = std::max(of, at[p]);
      }
    }
  }
  for (size_t k = 0; k < static_cast<size_t>(N); ++k) {
    const double v = worst[0][k], a = worst[1][k], j = worst[2][k];
    if (v > kHeld) velocity_scale_[k] /= std::min(v, kMostAtOnce);
    if (a > kHeld) acceleration_scale_[k] /= std::min(a, kMostAtOnce);
    if (j > kHeld) jerk_scale_[k] /= std::min(j, kMostAtOnce);
  }
}

}  // namespace traj_integrator::retiming
