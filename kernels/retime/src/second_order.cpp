#include "second_order.h"

#include <algorithm>
#include <cmath>
#include <limits>

namespace traj_integrator::retiming {
namespace {

constexpr double kInfinity = std::numeric_limits<double>::infinity();
// x where nothing bounds it; larger ones would not be finite in products.
constexpr double kLargest = 1e24;
// Relative to the terms of the gap, not to u: that is often much smaller.
constexpr double kGapTolerance = 1e-11;
// Below this ratio to the interval, a row bounds x rather than u.
constexpr double kVertical = 1e-9;
constexpr int kMostRounds = 8;

struct Gap {
  double value, low, high, low_slope, high_slope;
  int32_t low_row, high_row;  // -1: that which reaches the next point
};

template <class Rows>
Gap gap_at(const Rows& rows, double x) {
  double most = rows.next_low - rows.next_slope * x, least = rows.next_high - rows.next_slope * x;
  int32_t most_row = -1, least_row = -1;
  for (int64_t k = 0; k < rows.count; ++k) {
    const double shift = rows.slope[k] * x, low = rows.low[k] - shift, high = rows.high[k] - shift;
    most_row = low > most ? static_cast<int32_t>(k) : most_row;
    most = low > most ? low : most;
    least_row = high < least ? static_cast<int32_t>(k) : least_row;
    least = high < least ? high : least;
  }
  Gap gap;
  gap.value = least - most;
  gap.low = most_row < 0 ? rows.next_low : rows.low[most_row];
  gap.high = least_row < 0 ? rows.next_high : rows.high[least_row];
  gap.low_slope = most_row < 0 ? rows.next_slope : rows.slope[most_row];
  gap.high_slope = least_row < 0 ? rows.next_slope : rows.slope[least_row];
  gap.low_row = most_row;
  gap.high_row = least_row;
  return gap;
}

// The x next to `x` where the gap closes, in the direction of `sign` (-1: the largest x at most `x`); NaN: there is none.
template <class Rows>
double closes(const Rows& rows, double x, double sign) {
  const double first = x;
  for (int step = 0; step < 200; ++step) {
    const Gap gap = gap_at(rows, x);
    const double terms = std::abs(gap.low) + std::abs(gap.high) + (std::abs(gap.low_slope) + std::abs(gap.high_slope)) * x;
    if (gap.value >= -kGapTolerance * terms) return x;
    const double slope = gap.low_slope - gap.high_slope;  // of the gap
    if (!(slope * sign > 0)) return std::nan("");
    const double next = (gap.low - gap.high) / slope;
    if (!(next >= 0) || (next - x) * sign <= 0) return x == first || !(next >= 0) ? std::nan("") : x;
    x = next;
  }
  return std::nan("");
}

// The largest of |values| of a parabola through three, over the span of their abscissae -1, 0, 1.
double parabola_peak(double a, double b, double c) {
  const double most = std::max({a, b, c}), curvature = a - 2 * b + c, slope = (c - a) / 2;
  if (!(curvature < 0) || std::abs(slope) >= -curvature) return most;
  return std::max(most, b - slope * slope / (2 * curvature));
}

}  // namespace

// low - slope x <= u <= high - slope x, `count` of them, and the one that reaches the next point.
struct SecondOrder::Rows {
  const double *low, *high, *slope;
  int64_t count;
  double next_low, next_high, next_slope;
};

SecondOrder::Rows SecondOrder::rows_of(size_t i) const {
  const int64_t width = 2 * path_->dof();
  const double D = s_[i + 1] - s_[i];
  const size_t k = i * static_cast<size_t>(width);
  return {low_.data() + k,          high_.data() + k,           slope_.data() + k, width,
          minimal_[i + 1] / (2 * D), reachable_[i + 1] / (2 * D), 1 / (2 * D)};
}

SecondOrder::Binding SecondOrder::binding_at_start(const Limits& limits) const {
  const int64_t dof = path_->dof();
  const Gap gap = gap_at(rows_of(0), reachable_[0]);
  const int32_t row = gap.low_row < 0 ? gap.high_row : gap.low_row;
  if (reachable_[0] < bound_[0] * (1 - 1e-9) && row >= 0) return {1, row % dof};
  int64_t fastest = 0;
  for (int64_t j = 1; j < dof; ++j) {
    const double* const d = derivative_.data();
    if (std::abs(d[j]) / limits.velocity[j] > std::abs(d[fastest]) / limits.velocity[fastest]) fastest = j;
  }
  return {0, fastest};
}

void SecondOrder::set_grid(const Path& path, int64_t intervals) {
  path_ = &path;
  inner_.clear();
  const int64_t pieces = path.pieces(), dof = path.dof(), count = std::max(intervals, pieces);
  s_.resize(static_cast<size_t>(count) + 1);
  piece_.resize(static_cast<size_t>(count));
  derivative_.resize(static_cast<size_t>(count * 4 * dof));
  size_t next = 0;
  for (int64_t m = 0; m < pieces; ++m) {
    const int64_t parts = count / pieces + (m < count % pieces);
    const double from = path.knots()[static_cast<size_t>(m)], to = path.knots()[static_cast<size_t>(m) + 1];
    for (int64_t i = 0; i < parts; ++i) {
      s_[next] = from + (to - from) * static_cast<double>(i) / static_cast<double>(parts);
      piece_[next++] = m;
    }
  }
  s_[next] = path.end();
  for (int64_t i = 0; i < count; ++i) {
    const size_t at = static_cast<size_t>(i);
    double* const d = derivative_.data() + i * 4 * dof;
    path.evaluate(piece_[at], s_[at], nullptr, d, d + dof, nullptr);
    path.evaluate(piece_[at], s_[at + 1], nullptr, d + 2 * dof, d + 3 * dof, nullptr);
  }
  velocity_scale_.assign(static_cast<size_t>(count), 1.0);
  acceleration_scale_.assign(static_cast<size_t>(count), 1.0);
}

void SecondOrder::prepare(const Limits& limits, bool slow_only) {
  const int64_t count = intervals(), dof = path_->dof();
  const size_t rows = static_cast<size_t>(count * 2 * dof);
  low_.resize(rows);
  high_.resize(rows);
  slope_.resize(rows);
  bound_.assign(static_cast<size_t>(count) + 1, slow_only ? 1.0 : kLargest);
  const auto bound = [&](size_t i, double x) { bound_[i] = std::min(bound_[i], x); };
  for (int64_t i = 0; i < count; ++i) {
    const size_t at = static_cast<size_t>(i);
    const double D = s_[at + 1] - s_[at], *const d = derivatives(i);
    const double scale = acceleration_scale_[at], speed = velocity_scale_[at];
    for (int64_t j = 0; j < dof; ++j) {
      const double begin = speed * limits.velocity[j] / std::abs(d[j]), end = speed * limits.velocity[j] / std::abs(d[2 * dof + j]);
      if (d[j] != 0) bound(at, begin * begin);
      if (d[2 * dof + j] != 0) bound(at + 1, end * end);
      for (int side = 0; side < 2; ++side) {
        const double r = d[(side == 0 ? 1 : 3) * dof + j], p = side == 0 ? d[j] : d[2 * dof + j] + 2 * D * r;
        const size_t k = at * static_cast<size_t>(2 * dof) + static_cast<size_t>(side * dof + j);
        const double lowest = scale * limits.lowest[j], highest = scale * limits.highest[j];
        if (std::abs(p) <= kVertical * std::abs(r) * D || p == 0) {
          low_[k] = -kInfinity;
          high_[k] = kInfinity;
          slope_[k] = 0;
          if (r != 0) bound(at, (r > 0 ? highest : lowest) / r);
          continue;
        }
        const double inverse = 1 / p;
        low_[k] = (p > 0 ? lowest : highest) * inverse;
        high_[k] = (p > 0 ? highest : lowest) * inverse;
        slope_[k] = r * inverse;
      }
    }
  }
}

Status SecondOrder::solve(const Limits& limits, const Ends& ends, bool slow_only) {
  prepare(limits, slow_only);
  const int64_t count = intervals();
  const size_t last = static_cast<size_t>(count);
  x_.assign(last + 1, 0.0);
  reachable_.assign(last + 1, 0.0);
  minimal_.assign(last + 1, 0.0);
  const double goal = ends.free_end ? bound_[last] : ends.end_speed * ends.end_speed;
  if (goal > bound_[last] * (1 + 1e-9)) return Status::kEndTooFast;
  reachable_[last] = goal;
  minimal_[last] = ends.free_end ? 0 : goal;
  for (size_t i = last; i-- > 0;) {
    const Rows rows = rows_of(i);
    reachable_[i] = closes(rows, bound_[i], -1);
    if (!(reachable_[i] >= 0)) return Status::kEndTooFast;
    if (minimal_[i + 1] > 0) {
      const double least = closes(rows, 0, 1);
      minimal_[i] = least >= 0 ? std::min(least, reachable_[i]) : reachable_[i];
    }
  }
  const double start = ends.free_start ? reachable_[0] : ends.start_speed * ends.start_speed;
  if (start > reachable_[0] * (1 + 1e-9)) return Status::kStartTooFast;
  if (start < minimal_[0] * (1 - 1e-9)) return Status::kEndTooFast;
  x_[0] = std::min(start, reachable_[0]);
  for (size_t i = 0; i < last; ++i) {
    const double D = s_[i + 1] - s_[i];
    const Gap gap = gap_at(rows_of(i), x_[i]);
    const double next = x_[i] + 2 * D * (gap.high - gap.high_slope * x_[i]);
    x_[i + 1] = std::clamp(next, 0.0, reachable_[i + 1]);
  }
  set_times();
  return std::isfinite(t_.back()) ? Status::kDone : Status::kNotConverged;
}

Status SecondOrder::solve_held(const Limits& limits, const Ends& ends, bool slow_only) {
  std::fill(velocity_scale_.begin(), velocity_scale_.end(), 1.0);
  std::fill(acceleration_scale_.begin(), acceleration_scale_.end(), 1.0);
  Status status = solve(limits, ends, slow_only);
  if (status != Status::kDone) return status;
  const bool rests = ends.rests_before() && ends.rests_after();
  double kappa = 1;
  std::vector<double> kept;
  for (int round = 0;; ++round) {
    if (worst_ratio(limits, round < kMostRounds, &kappa) <= (rests ? kAlmostHeld : kHeld)) break;
    if (round == kMostRounds) break;
    kept = x_;
    if (solve(limits, ends, slow_only) != Status::kDone) {  // tightened beyond what the ends allow
      x_ = kept;
      set_times();
      return Status::kExceeds;
    }
  }
  if (kappa > kHeld && !rests) return Status::kExceeds;
  if (kappa > 1 && rests) stretch(kappa);
  return Status::kDone;
}

double SecondOrder::worst_ratio(const Limits& limits, bool tighten, double* kappa) {
  const int64_t count = intervals(), dof = path_->dof();
  constexpr int kSamples = 5;
  if (inner_.empty()) {  // derivatives between the points of the grid
    inner_.resize(static_cast<size_t>(count * (kSamples - 2) * 2 * dof));
    double* to = inner_.data();
    for (int64_t i = 0; i < count; ++i) {
      const size_t at = static_cast<size_t>(i);
      for (int e = 1; e < kSamples - 1; ++e, to += 2 * dof) {
        const double part = static_cast<double>(e) / (kSamples - 1);
        path_->evaluate(piece_[at], s_[at] + (s_[at + 1] - s_[at]) * part, nullptr, to, to + dof, nullptr);
      }
    }
  }
  const size_t width = static_cast<size_t>(dof);
  std::vector<double> inverse(3 * width), v(width * kSamples), low(v.size()), high(v.size());
  for (size_t j = 0; j < width; ++j) {
    inverse[j] = 1 / limits.velocity[j];
    inverse[width + j] = 1 / limits.highest[j];
    inverse[2 * width + j] = 1 / limits.lowest[j];
  }
  double worst = 0, stretch = 0;
  for (int64_t i = 0; i < count; ++i) {
    const size_t at = static_cast<size_t>(i);
    const double D = s_[at + 1] - s_[at], u = (x_[at + 1] - x_[at]) / (2 * D), *const d = derivatives(i);
    for (int e = 0; e < kSamples; ++e) {
      const double part = static_cast<double>(e) / (kSamples - 1), x = x_[at] + 2 * D * u * part, root = std::sqrt(x);
      const double* const inner = inner_.data() + (i * (kSamples - 2) + e - 1) * 2 * dof;
      const double* const d1 = e == 0 ? d : e == kSamples - 1 ? d + 2 * dof : inner;
      const double* const d2 = d1 + dof;
      double *const to_v = v.data() + e * dof, *const to_high = high.data() + e * dof, *const to_low = low.data() + e * dof;
      for (size_t j = 0; j < width; ++j) {
        const double a = d2[j] * x + d1[j] * u;
        to_v[j] = std::abs(d1[j]) * root * inverse[j];
        to_high[j] = a * inverse[width + j];
        to_low[j] = a * inverse[2 * width + j];
      }
    }
    double speed = 0, acceleration = 0;
    for (int64_t j = 0; j < dof; ++j) {
      for (int e = 0; e + 2 < kSamples; e += 2) {
        const size_t k = static_cast<size_t>(e * dof + j), n = width;
        speed = std::max(speed, parabola_peak(v[k], v[k + n], v[k + 2 * n]));
        acceleration = std::max(acceleration, parabola_peak(high[k], high[k + n], high[k + 2 * n]));
        acceleration = std::max(acceleration, parabola_peak(low[k], low[k + n], low[k + 2 * n]));
      }
    }
    worst = std::max({worst, speed, acceleration});
    stretch = std::max({stretch, speed, std::sqrt(acceleration)});
    if (tighten && speed > kHeld) velocity_scale_[at] /= speed;
    if (tighten && acceleration > kHeld) acceleration_scale_[at] /= acceleration;
  }
  *kappa = stretch;
  return worst;
}

void SecondOrder::stretch(double factor) {
  for (double& x : x_) x /= factor * factor;
  set_times();
}

void SecondOrder::set_times() {
  t_.assign(x_.size(), 0.0);
  for (size_t i = 0; i + 1 < x_.size(); ++i) {
    t_[i + 1] = t_[i] + 2 * (s_[i + 1] - s_[i]) / (std::sqrt(x_[i]) + std::sqrt(x_[i + 1]));
  }
}

double SecondOrder::largest_start_speed() const { return std::sqrt(reachable_.front()); }

}  // namespace traj_integrator::retiming
