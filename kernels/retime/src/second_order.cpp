#include "second_order.h"

#include <algorithm>

namespace traj_integrator::retiming {
namespace {

// x where nothing bounds it; larger values would not be finite in products.
constexpr double kLargest = 1e24;

}  // namespace

Grid SecondOrder::grid() {
  return {.width = width_, .s = s_.data(), .derivative = derivative_.data(),
          .inverse_velocity = limits_.inverse[kVelocity].data(), .lowest = limits_.of[kLowest].data(),
          .highest = limits_.of[kHighest].data(), .scale = {scale_[0].data(), scale_[1].data()},
          .low = low_.data(), .high = high_.data(), .slope = slope_.data(), .bound = bound_.data()};
}

Reach SecondOrder::rows_of(int64_t i) const {
  const int64_t k = i * 2 * width_;
  const double slope = 1 / (2 * (s_[i + 1] - s_[i]));
  return {&low_[k], &high_[k], &slope_[k], 2 * width_, minimal_[i + 1] * slope, reachable_[i + 1] * slope, slope};
}

SecondOrder::Binding SecondOrder::binding_at_start() const {
  const Reach rows = rows_of(0);
  const double x = reachable_[0];
  double most = rows.next_low - rows.next_slope * x, least = rows.next_high - rows.next_slope * x;
  int64_t lower = -1, upper = -1;
  for (int64_t k = 0; k < rows.count; ++k) {
    const double low = rows.low[k] - rows.slope[k] * x, high = rows.high[k] - rows.slope[k] * x;
    if (low > most) most = low, lower = k;
    if (high < least) least = high, upper = k;
  }
  const int64_t row = lower < 0 ? upper : lower;
  if (reachable_[0] < bound_[0] * (1 - 1e-9) && row >= 0) return {1, row % width_};
  const auto rate = [&](int64_t j) { return std::abs(derivative(0, 1)[j]) * limits_.inverse[kVelocity][j]; };
  int64_t fastest = 0;
  for (int64_t j = 1; j < width_; ++j) fastest = rate(j) > rate(fastest) ? j : fastest;
  return {0, fastest};
}

void SecondOrder::set_grid(const Path& path, int64_t intervals) {
  const int64_t pieces = path.pieces(), count = std::max(intervals, pieces);
  dof_ = path.dof();
  width_ = whole_lanes(dof_);
  s_.resize(count + 1);
  piece_.resize(count);
  position_.assign((count + 1) * width_, 0.0);
  derivative_.assign(count * 4 * width_, 0.0);
  int64_t next = 0;
  for (int64_t m = 0; m < pieces; ++m) {
    const int64_t parts = count / pieces + (m < count % pieces);
    const double from = path.knots()[m], to = path.knots()[m + 1];
    for (int64_t i = 0; i < parts; ++i) {
      s_[next] = from + (to - from) * static_cast<double>(i) / static_cast<double>(parts);
      piece_[next++] = m;
    }
  }
  s_[next] = path.end();
  for (int64_t i = 0; i < count; ++i) {
    double *const d = &derivative_[i * 4 * width_], *const p = &position_[i * width_];
    if (i > 0 && piece_[i] == piece_[i - 1]) std::copy_n(d - 2 * width_, 2 * width_, d);
    else path.evaluate(piece_[i], s_[i], p, d, d + width_, nullptr);
    path.evaluate(piece_[i], s_[i + 1], p + width_, d + 2 * width_, d + 3 * width_, nullptr);
  }
}

Status SecondOrder::solve(const Path& path, int64_t intervals, const Limits& limits, const Ends& ends, bool slow_only) {
  set_grid(path, intervals);
  limits_ = limits;
  ends_ = ends;
  const int64_t count = this->intervals();
  for (auto* each : {&low_, &high_, &slope_}) each->resize(count * 2 * width_);
  for (auto& each : scale_) each.assign(count, 1.0);
  bound_.assign(count + 1, slow_only ? 1.0 : kLargest);
  const Grid grid = this->grid();
  for (int64_t i = 0; i < count; ++i) row_loops().form_rows(grid, i);
  x_.assign(count + 1, 0.0);
  reachable_ = bound_;
  minimal_.assign(count + 1, 0.0);
  formed_.assign(count, 1);
  return sweep();
}

Status SecondOrder::rest_at(const std::vector<int64_t>& points) {
  for (const int64_t point : points) bound_[point] = 0;
  formed_.assign(intervals(), 0);
  return sweep();
}

bool SecondOrder::tighten(const std::vector<double>& ratios) {
  const Grid grid = this->grid();
  for (int64_t i = 0; i < intervals(); ++i) {
    formed_[i] = ratios[3 * i] > 1 || ratios[3 * i + 1] > 1;
    if (!formed_[i]) continue;
    for (int kind = 0; kind < 2; ++kind) scale_[kind][i] /= std::max(1.0, ratios[3 * i + kind] * kBeyond);
    row_loops().form_rows(grid, i);
  }
  const std::vector<double> kept = x_;
  if (sweep() == Status::kDone) return true;
  x_ = kept;
  set_times();
  return false;
}

// Backwards, then forwards, where rows were formed and where that changed something.
Status SecondOrder::sweep() {
  const int64_t last = intervals();
  const RowLoops& loops = row_loops();
  const double goal = ends_.free_end ? bound_[last] : ends_.end_speed * ends_.end_speed;
  if (goal > bound_[last] * (1 + 1e-9)) return Status::kEndTooFast;
  lowered_.assign(last + 1, 0);
  lowered_[last] = 1;
  reachable_[last] = goal;
  minimal_[last] = ends_.free_end ? 0 : goal;
  for (int64_t i = last; i-- > 0;) {
    if (!formed_[i] && !lowered_[i + 1] && reachable_[i] <= bound_[i]) continue;
    const Reach rows = rows_of(i);
    const double was = reachable_[i], was_minimal = minimal_[i];
    reachable_[i] = loops.closes(rows, std::min(bound_[i], was), -1);
    if (!(reachable_[i] >= 0)) return Status::kEndTooFast;
    if (minimal_[i + 1] > 0) {
      const double least = loops.closes(rows, 0, 1);
      minimal_[i] = least >= 0 ? std::min(least, reachable_[i]) : reachable_[i];
    }
    lowered_[i] = reachable_[i] != was || minimal_[i] != was_minimal;
  }
  const double start = ends_.free_start ? reachable_[0] : ends_.start_speed * ends_.start_speed;
  if (start > reachable_[0] * (1 + 1e-9)) return Status::kStartTooFast;
  if (start < minimal_[0] * (1 - 1e-9)) return Status::kEndTooFast;
  x_[0] = std::min(start, reachable_[0]);
  for (int64_t i = 0; i < last; ++i) {
    const double next = x_[i] + 2 * (s_[i + 1] - s_[i]) * loops.fastest(rows_of(i), x_[i]);
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
  double speed = std::sqrt(x_[0]);
  for (int64_t i = 0; i < intervals(); ++i) {
    const double next = std::sqrt(x_[i + 1]);
    t_[i + 1] = t_[i] + 2 * (s_[i + 1] - s_[i]) / (speed + next);
    speed = next;
  }
}

}  // namespace traj_integrator::retiming
