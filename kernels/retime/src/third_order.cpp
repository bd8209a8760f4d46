#include "third_order.h"

#include <algorithm>
#include <cmath>
#include <limits>

namespace traj_integrator::retiming {
namespace {

constexpr double kTightenedAt[] = {1e-2, 1e-3, 1e-4};  // gaps
constexpr double kInfinity = std::numeric_limits<double>::infinity();

}  // namespace

void ThirdOrder::form(const Path& path, const Limits& limits, bool slow_only) {
  path_ = &path;
  dof_ = path.dof();
  const int64_t N = base.intervals();
  unknowns_ = N + 2;
  knots_ = places_of_knots(path, base);
  slow_.clear();
  slow_.add_everywhere(N, kSlowParts, false, false, knots_);
  slow_.add(N - 1, 1, path.pieces() - 1);
  slow_.finish(path, base);
  fast_.clear();
  fast_.add_everywhere(N, kFastParts, true, false, knots_);
  fast_.add_knots(knots_);
  fast_.finish(path, base);
  fine_.clear();
  fine_.add_everywhere(N, kFineParts, true, true, knots_);
  fine_.add_knots(knots_);
  fine_.finish(path, base);

  for (int i = 0; i < 3; ++i) inverse_[i].resize(static_cast<size_t>(dof_));
  inverse_jerk_.resize(static_cast<size_t>(dof_));
  inverse_velocity_.resize(static_cast<size_t>(dof_));
  for (size_t j = 0; j < static_cast<size_t>(dof_); ++j) {
    inverse_[0][j] = 1 / limits.highest[j];
    inverse_[1][j] = 1 / limits.lowest[j];
    inverse_[2][j] = 1 / limits.jerk[j];
    inverse_velocity_[j] = 1 / limits.velocity[j];
  }
  const auto bounds = [&](const Points& points, std::vector<double>& bound) {
    bound.assign(static_cast<size_t>(points.padded), 0.0);  // of max (q1 / V)^2
    for (int64_t j = 0; j < dof_; ++j) {
      const double inverse = 1 / limits.velocity[j];
      for (int64_t p = 0; p < points.padded; ++p) {
        const double ratio = std::abs(points.q1[points.at(p, j)]) * inverse;
        double& of = bound[static_cast<size_t>(p)];
        of = std::max(of, ratio * ratio);
      }
    }
  };
  bounds(slow_, velocity_bound_);
  bounds(fine_, fine_velocity_bound_);
  slow_only_ = slow_only;
  for (auto* scale : {&velocity_scale_, &acceleration_scale_, &jerk_scale_}) scale->resize(static_cast<size_t>(N));
  slow_pairs_.resize(static_cast<size_t>(8 * dof_ * slow_.padded));
  fast_pairs_.resize(static_cast<size_t>(8 * dof_ * fast_.padded));
  bound_pairs_.resize(static_cast<size_t>(4 * slow_.padded));
  for (auto* each : {&r_, &slope_r_}) each->resize(static_cast<size_t>(fast_.padded));
  objective_.assign(static_cast<size_t>(slow_.padded), 0.0);
  const double each = 1.0 / static_cast<double>((kSlowParts + 1) * N);
  for (size_t p = 0; p < static_cast<size_t>(slow_.count); ++p) {  // four in each interval: nodes belong to two of them
    objective_[p] = slow_.part[p] == 0 && slow_.interval[p] > 0 ? 2 * each : each;
  }
  b_.assign(static_cast<size_t>(unknowns_), 0.0);
  db_ = b_;
  for (int i = 0; i < 3; ++i) diagonal_[i] = right_[i] = b_;
}

double ThirdOrder::largest_constant() const {
  double most = kInfinity;
  for (size_t p = 0; p < static_cast<size_t>(slow_.padded); ++p) {
    if (bound_inverse_[p] > 0) most = std::min(most, 1 / bound_inverse_[p]);
  }
  for (int64_t j = 0; j < dof_; ++j) {
    const size_t i = static_cast<size_t>(j);
    for (int64_t p = 0; p < slow_.padded; ++p) {
      const double q2 = slow_.q2[slow_.at(p, j)] * slow_scale_[static_cast<size_t>(p)];
      const double ratio = std::max(q2 * inverse_[0][i], q2 * inverse_[1][i]);
      if (ratio * most > 1) most = 1 / ratio;
    }
    double steepest = 0;
    for (int64_t p = 0; p < fast_.padded; ++p) {
      steepest = std::max(steepest, std::abs(fast_.q3[fast_.at(p, j)]) * fast_scale_[static_cast<size_t>(p)]);
    }
    steepest *= inverse_[2][i];
    if (steepest > 0) most = std::min(most, std::pow(steepest, -2.0 / 3.0));
  }
  return std::isfinite(most) ? most : 1.0;
}

// Coefficients to begin with.
void ThirdOrder::set_begin(const Ends& ends) {
  const int64_t N = base.intervals();
  // What the ends give: y = (v / s')^2 and u = (a - s'' y) / s'. At rest b is free, because there s' = 0.
  const auto given = [&](int64_t interval, double e, double speed, double acceleration, double* y, double* u) {
    double s[4];
    base.evaluate(interval, e, s);
    *y = speed * speed / (s[1] * s[1]);
    *u = (acceleration - s[2] * *y) / s[1];
  };
  const double usual = 0.95 * largest_constant(), h = base.h;
  double from = usual, from_u = 0, to = usual, to_u = 0;
  if (fixed_begin_) given(0, 0, ends.start_speed, ends.start_acceleration, &from, &from_u);
  if (fixed_end_) given(N - 1, 1, ends.end_speed, ends.end_acceleration, &to, &to_u);
  const size_t n = b_.size();
  for (size_t i = 0; i < n; ++i) b_[i] = from + (to - from) * static_cast<double>(i) / static_cast<double>(n - 1);
  if (fixed_begin_) {
    b_[0] = from - from_u * h;
    b_[1] = from + from_u * h;
  }
  if (fixed_end_) {
    b_[n - 2] = to - to_u * h;
    b_[n - 1] = to + to_u * h;
  }
}

// `careful`: with steps along the centre, and without tightening on the way.
bool ThirdOrder::converges(const Ends& ends, double part, bool careful) {
  careful_ = careful;
  for (auto* scale : {&velocity_scale_, &acceleration_scale_, &jerk_scale_}) std::fill(scale->begin(), scale->end(), part);
  set_scales();
  set_begin(ends);
  for (double value : b_) {
    if (!(value > 0)) return false;
  }
  // With a larger barrier, jerk rows push y to 0 where nothing else holds it.
  begin(0.01, 0.05 / static_cast<double>(4 * base.intervals()));
  for (const double gap : kTightenedAt) {  // while slacks and multipliers are large enough to follow
    if (careful) break;
    if (!iterate(gap, careful)) return false;
    tighten_between();
    set_scales();
    choose_rows(false);
    widens_ = true;
  }
  return iterate(tolerance, careful);
}

Status ThirdOrder::solve(const Path& path, const Limits& limits, const Ends& ends, bool slow_only, double part) {
  form(path, limits, slow_only);
  stretched_ = 1;
  fixed_begin_ = !ends.rests_before();
  fixed_end_ = !ends.rests_after();
  if (!converges(ends, part, false) && !converges(ends, part, true)) return Status::kNotConverged;
  set_times();
  return Status::kDone;
}

void ThirdOrder::stretch(double factor) {
  for (double& b : b_) b /= factor * factor;
  stretched_ *= factor;
  set_times();
}

void ThirdOrder::rate_at(int64_t k, double e, double* yuw) const {
  const double* const b = b_.data() + k;
  const double f = 1 - e, h = base.h;
  yuw[0] = f * f / 2 * b[0] + (0.5 + e - e * e) * b[1] + e * e / 2 * b[2];
  yuw[1] = (f * (b[1] - b[0]) + e * (b[2] - b[1])) / (2 * h);
  yuw[2] = (b[0] - 2 * b[1] + b[2]) / (2 * h * h);
}

// Gauss's quadrature of d tau / sqrt(y), five points.
double ThirdOrder::time_within(int64_t k, double e) const {
  constexpr double kAt[] = {0.046910077030668, 0.230765344947158, 0.5, 0.769234655052842, 0.953089922969332};
  constexpr double kWeight[] = {0.118463442528095, 0.239314335249683, 0.284444444444444, 0.239314335249683, 0.118463442528095};
  double total = 0, yuw[3];
  for (int i = 0; i < 5; ++i) {
    rate_at(k, e * kAt[i], yuw);
    total += kWeight[i] / std::sqrt(yuw[0]);
  }
  return total * e * base.h;
}

void ThirdOrder::set_times() {
  const int64_t N = base.intervals();
  t_.assign(static_cast<size_t>(N) + 1, 0.0);
  for (int64_t k = 0; k < N; ++k) t_[static_cast<size_t>(k) + 1] = t_[static_cast<size_t>(k)] + time_within(k, 1);
}

}  // namespace traj_integrator::retiming
