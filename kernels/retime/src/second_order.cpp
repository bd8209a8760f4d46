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
    if (i > 0 && piece_[at] == piece_[at - 1]) std::copy_n(d - 2 * dof, 2 * dof, d);
    else path.evaluate(piece_[at], s_[at], nullptr, d, d + dof, nullptr);
    path.evaluate(piece_[at], s_[at + 1], nullptr, d + 2 * dof, d + 3 * dof, nullptr);
  }
}

void SecondOrder::form_rows(const Limits& limits, int64_t interval) {
  const size_t at = static_cast<size_t>(interval);
  const int64_t dof = path_->dof();
  const double D = s_[at + 1] - s_[at], scale = scale_[1][at];
  for (int side = 0; side < 2; ++side) {
    const double *const q1 = derivatives(interval) + 2 * side * dof, *const q2 = q1 + dof;
    const int64_t first = (2 * interval + side) * dof;
    double *const low = low_.data() + first, *const high = high_.data() + first, *const slope = slope_.data() + first;
    const double to_next = side == 0 ? 0 : 2 * D;
    double fastest = 0, most = kLargest;
    for (int64_t j = 0; j < dof; ++j) {
      fastest = std::max(fastest, std::abs(q1[j]) * inverse_velocity_[static_cast<size_t>(j)]);
      const double r = q2[j], p = q1[j] + to_next * r, lowest = scale * limits.lowest[j], highest = scale * limits.highest[j];
      const bool bounds_u = std::abs(p) > kVertical * std::abs(r) * D;
      const double inverse = 1 / (bounds_u ? p : r), least = inverse > 0 ? lowest : highest, greatest = inverse > 0 ? highest : lowest;
      low[j] = bounds_u ? least * inverse : -kInfinity;
      high[j] = bounds_u ? greatest * inverse : kInfinity;
      slope[j] = bounds_u ? r * inverse : 0;
      most = bounds_u || r == 0 ? most : std::min(most, greatest * inverse);
    }
    const double speed = scale_[0][at] / fastest;
    bound_[at] = std::min(bound_[at], most);
    double& bound = bound_[at + static_cast<size_t>(side)];
    bound = std::min(bound, speed * speed);
  }
}

Status SecondOrder::solve(const Limits& limits, const Ends& ends, bool slow_only) {
  const size_t count = static_cast<size_t>(intervals()), rows = count * 2 * static_cast<size_t>(path_->dof());
  for (auto* each : {&low_, &high_, &slope_}) each->resize(rows);
  for (auto& each : scale_) each.assign(count, 1.0);
  inverse_velocity_.assign(limits.velocity, limits.velocity + path_->dof());
  for (double& each : inverse_velocity_) each = 1 / each;
  bound_.assign(count + 1, slow_only ? 1.0 : kLargest);
  for (int64_t i = 0; i < intervals(); ++i) form_rows(limits, i);
  x_.assign(count + 1, 0.0);
  reachable_ = bound_;
  minimal_.assign(count + 1, 0.0);
  return sweep(ends, count);
}

bool SecondOrder::tighten(const std::vector<double>& ratios, const Limits& limits, const Ends& ends) {
  size_t behind = 0;
  for (size_t i = 0; i < scale_[0].size(); ++i) {
    if (ratios[3 * i] <= 1 && ratios[3 * i + 1] <= 1) continue;
    for (size_t kind = 0; kind < 2; ++kind) scale_[kind][i] /= std::max(1.0, ratios[3 * i + kind] * kBeyond);
    form_rows(limits, static_cast<int64_t>(i));
    behind = i + 1;
  }
  const std::vector<double> kept = x_;
  const bool solved = sweep(ends, behind) == Status::kDone;
  if (!solved) x_ = kept;
  set_times();
  return solved;
}

// Backwards from an interval on, as those behind it have not changed, then forwards.
Status SecondOrder::sweep(const Ends& ends, size_t from) {
  const size_t last = x_.size() - 1;
  const double goal = ends.free_end ? bound_[last] : ends.end_speed * ends.end_speed;
  if (goal > bound_[last] * (1 + 1e-9)) return Status::kEndTooFast;
  reachable_[last] = goal;
  minimal_[last] = ends.free_end ? 0 : goal;
  for (size_t i = from; i-- > 0;) {
    const Rows rows = rows_of(i);
    reachable_[i] = closes(rows, std::min(bound_[i], reachable_[i]), -1);
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
