#include "second_order.h"

#include <algorithm>
#include <bit>
#include <cmath>

namespace traj_integrator::retiming {
namespace {

// x where nothing bounds it; larger ones would not be finite in products.
constexpr double kLargest = 1e24;

}  // namespace

Reach SecondOrder::rows_of(size_t i) const {
  const size_t k = i * static_cast<size_t>(2 * width_);
  const double slope = 1 / (2 * (s_[i + 1] - s_[i]));
  return {low_.data() + k,         high_.data() + k, slope_.data() + k, 2 * width_, minimal_[i + 1] * slope,
          reachable_[i + 1] * slope, slope};
}

SecondOrder::Binding SecondOrder::binding_at_start(const Limits& limits) const {
  const int64_t dof = path_->dof();
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
  const double* const q1 = derivative(0, 1);
  int64_t fastest = 0;
  for (int64_t j = 1; j < dof; ++j) {
    if (std::abs(q1[j]) / limits.velocity[j] > std::abs(q1[fastest]) / limits.velocity[fastest]) fastest = j;
  }
  return {0, fastest};
}

void SecondOrder::set_grid(const Path& path, int64_t intervals) {
  path_ = &path;
  const int64_t pieces = path.pieces(), count = std::max(intervals, pieces);
  width_ = (path.dof() + kLanes - 1) / kLanes * kLanes;
  s_.resize(static_cast<size_t>(count) + 1);
  piece_.resize(static_cast<size_t>(count));
  position_.assign(static_cast<size_t>((count + 1) * width_), 0.0);
  derivative_.assign(static_cast<size_t>(count * 4 * width_), 0.0);
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
    double *const d = derivative_.data() + i * 4 * width_, *const p = position_.data() + i * width_;
    if (i > 0 && piece_[at] == piece_[at - 1]) std::copy_n(d - 2 * width_, 2 * width_, d);
    else path.evaluate(piece_[at], s_[at], p, d, d + width_, nullptr);
    path.evaluate(piece_[at], s_[at + 1], p + width_, d + 2 * width_, d + 3 * width_, nullptr);
  }
}

Grid SecondOrder::grid(const Limits& limits) {
  const double* const given[] = {limits.velocity, limits.lowest, limits.highest};
  for (int k = 0; k < 4; ++k) limit_[k].assign(static_cast<size_t>(width_), 1.0);
  for (int k = 0; k < 3; ++k) std::copy_n(given[k], path_->dof(), limit_[k].begin());
  for (double& velocity : limit_[0]) velocity = 1 / velocity;
  return {width_,           s_.data(),           derivative_.data(), limit_[0].data(),
          limit_[1].data(), limit_[2].data(),    {scale_[0].data(), scale_[1].data()},
          low_.data(),      high_.data(),        slope_.data(),      bound_.data()};
}

Status SecondOrder::solve(const Limits& limits, const Ends& ends, bool slow_only) {
  const size_t count = static_cast<size_t>(intervals()), rows = count * static_cast<size_t>(2 * width_);
  for (auto* each : {&low_, &high_, &slope_}) each->resize(rows);
  for (auto& each : scale_) each.assign(count, 1.0);
  bound_.assign(count + 1, slow_only ? 1.0 : kLargest);
  const Grid all = grid(limits);
  for (int64_t i = 0; i < intervals(); ++i) row_loops().form_rows(all, i);
  x_.assign(count + 1, 0.0);
  judged_.assign(count + 1, -1.0);
  reachable_ = bound_;
  minimal_.assign(count + 1, 0.0);
  formed_.assign(count, 1);
  return sweep(ends);
}

bool SecondOrder::tighten(const std::vector<double>& ratios, const Limits& limits, const Ends& ends) {
  const Grid all = grid(limits);
  for (size_t i = 0; i < scale_[0].size(); ++i) {
    formed_[i] = ratios[3 * i] > 1 || ratios[3 * i + 1] > 1;
    if (!formed_[i]) continue;
    for (size_t kind = 0; kind < 2; ++kind) scale_[kind][i] /= std::max(1.0, ratios[3 * i + kind] * kBeyond);
    row_loops().form_rows(all, static_cast<int64_t>(i));
  }
  const std::vector<double> kept = x_;
  if (sweep(ends) == Status::kDone) return true;
  x_ = kept;
  set_times();
  return false;
}

// Backwards, then forwards, where rows were formed and where those changed something.
Status SecondOrder::sweep(const Ends& ends) {
  const size_t last = x_.size() - 1;
  const RowLoops& loops = row_loops();
  const double goal = ends.free_end ? bound_[last] : ends.end_speed * ends.end_speed;
  if (goal > bound_[last] * (1 + 1e-9)) return Status::kEndTooFast;
  lowered_.assign(last + 1, 0);
  lowered_[last] = 1;
  reachable_[last] = goal;
  minimal_[last] = ends.free_end ? 0 : goal;
  for (size_t i = last; i-- > 0;) {
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
  const double start = ends.free_start ? reachable_[0] : ends.start_speed * ends.start_speed;
  if (start > reachable_[0] * (1 + 1e-9)) return Status::kStartTooFast;
  if (start < minimal_[0] * (1 - 1e-9)) return Status::kEndTooFast;
  x_[0] = std::min(start, reachable_[0]);
  for (size_t i = 0; i < last; ++i) {
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
  for (size_t i = 0; i + 1 < x_.size(); ++i) {
    const double next = std::sqrt(x_[i + 1]);
    t_[i + 1] = t_[i] + 2 * (s_[i + 1] - s_[i]) / (speed + next);
    speed = next;
  }
}

void SecondOrder::judge(const Limits& limits, std::vector<double>& ratios, double* ratio) {
  grid(limits);
  for (int k = 1; k < 3; ++k) {
    for (double& limit : limit_[k]) limit = 1 / limit;
  }
  ratios.resize(3 * static_cast<size_t>(intervals()));
  velocity_.resize(position_.size());
  Piece piece{};
  piece.dof = width_;
  for (int k = 0; k < 4; ++k) piece.limit[k] = limit_[k].data();
  for (double& known : piece.known) known = 1;
  piece.known[2] = INFINITY;
  const auto changed = [&](size_t point) { return x_[point] != judged_[point]; };
  for (size_t i = 0; i < x_.size(); ++i) {
    if (!changed(i)) continue;
    const double speed = std::sqrt(x_[i]), *const q1 = derivative(static_cast<int64_t>(i), 1);
    double* const v = velocity_.data() + i * static_cast<size_t>(width_);
    for (int64_t j = 0; j < width_; ++j) v[j] = speed * q1[j];
  }
  std::fill(ratio, ratio + 3, 0.0);
  for (size_t i = 0; i + 1 < x_.size(); ++i) {
    double* const of = ratios.data() + 3 * i;
    if (changed(i) || changed(i + 1)) {
      std::fill(of, of + 3, 0.0);
      piece.span = t_[i + 1] - t_[i];
      piece.p = position(static_cast<int64_t>(i));
      piece.v = velocity_.data() + i * static_cast<size_t>(width_);
      for (int64_t first = 0; first < width_; first += kLanes) {
        double each[3 * kLanes];
        for (uint32_t left = row_loops().may_exceed(piece, first, each); left != 0; left &= left - 1) {
          for (int k = 0; k < 2; ++k) of[k] = std::max(of[k], each[k * kLanes + std::countr_zero(left)]);
        }
      }
    }
    for (int k = 0; k < 2; ++k) ratio[k] = std::max(ratio[k], of[k]);
  }
  judged_ = x_;
}

double SecondOrder::largest_start_speed() const { return std::sqrt(reachable_.front()); }

}  // namespace traj_integrator::retiming
