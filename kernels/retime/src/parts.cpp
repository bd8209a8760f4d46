// Slow only: the parts of a plan that exceed a limit are slowed by themselves, and the rest stays as it came.
#include <algorithm>
#include <cmath>

#include "trajectory.h"

namespace traj_integrator::retiming {
namespace {

// Time before and behind what exceeds a limit in which it may be slowed already, s; more where that is not enough.
constexpr double kMargins[] = {0.2, 0.8};
// A margin is wide enough if its outer quarter takes hardly longer.
constexpr double kUnslowed = 1 + 1e-4;
// Above this part of the plan, it is slowed as a whole.
constexpr double kMostPart = 0.7;
constexpr double kNanosecond = 1e-9;

struct Part {
  int64_t first, last;  // rows
};

// Rows around the segments that exceed a limit.
std::vector<Part> parts_of(const Played& plan, double margin) {
  std::vector<Part> parts;
  const std::vector<double>& t = plan.row_times;
  const int64_t last = static_cast<int64_t>(t.size()) - 1;
  for (int64_t i = 0; i < last; ++i) {
    const double* const ratio = plan.segment_ratio.data() + 3 * i;
    if (worst_of(ratio) <= 1 + 1e-9) continue;
    int64_t from = i, to = i + 1;
    while (from > 0 && t[static_cast<size_t>(i)] - t[static_cast<size_t>(from)] < margin) --from;
    while (to < last && t[static_cast<size_t>(to)] - t[static_cast<size_t>(i) + 1] < margin) ++to;
    if (!parts.empty() && parts.back().last + 1 >= from) {
      parts.back().last = to;
    } else {
      parts.push_back({from, to});
    }
  }
  return parts;
}

bool whole_nanoseconds(const std::vector<double>& times) {
  return std::all_of(times.begin(), times.end(), [](double t) {
    return std::abs(t / kNanosecond - std::round(t / kNanosecond)) < 1e-3;
  });
}

}  // namespace

bool Retimer::slow_parts(const PathRows& rows, const Limits& limits, const Ends& ends, const Options& options) {
  const bool quintic = options.order == 3;
  const size_t dof = static_cast<size_t>(rows.dof);
  if (!whole_nanoseconds(played.row_times) || (!quintic && rows.acceleration != nullptr)) return false;
  const Played plan = played;
  const std::vector<double>& t = plan.row_times;
  const int64_t last = rows.rows - 1;
  if (part_ == nullptr) part_ = std::make_unique<Retimer>();
  Played made = plan;
  double delay = 0;
  const auto add_points = [&](const Played& from, size_t begin, size_t end, double shift) {
    const auto add = [&](const std::vector<double>& values, std::vector<double>& to) {
      to.insert(to.end(), values.data() + begin * dof, values.data() + end * dof);
    };
    for (size_t i = begin; i < end; ++i) made.times.push_back(from.times[i] + shift);
    add(from.position, made.position);
    add(from.velocity, made.velocity);
    if (quintic) add(from.acceleration, made.acceleration);
  };
  const auto slow = [&](const Part& part, double margin) {
    const size_t first = static_cast<size_t>(part.first), end = static_cast<size_t>(part.last);
    const double span = t[end] - t[first], whole = t.back();
    const auto from = [&](const std::vector<double>& values) { return values.empty() ? nullptr : values.data() + first * dof; };
    const PathRows of_part{part.last - part.first + 1, rows.dof, from(plan.position), from(plan.velocity),
                           from(plan.acceleration), rows.knots + part.first, false};
    Options each = options;
    each.in_parts = false;
    each.joins_before = options.joins_before || part.first > 0;
    each.joins_after = options.joins_after || part.last < last;
    each.intervals = std::max<int64_t>(8, std::lround(static_cast<double>(options.intervals) * span / whole));
    Ends moving{1, 0, 1, 0};
    if (part.first == 0) moving.start_speed = ends.start_speed, moving.start_acceleration = ends.start_acceleration;
    if (part.last == last) moving.end_speed = ends.end_speed, moving.end_acceleration = ends.end_acceleration;
    const Status status = part_->retime(of_part, limits, moving, each);
    iterations += part_->iterations;
    rounds += part_->rounds;
    if (status != Status::kDone) return false;
    const std::vector<double>& passed = part_->played.row_times;
    if (part.first > 0) {
      const double* const quarter = std::lower_bound(t.data() + first, t.data() + end, t[first] + margin / 4);
      const size_t k = static_cast<size_t>(quarter - t.data());
      if (passed[k - first] > (t[k] - t[first]) * kUnslowed) return false;
    } else {
      largest_start_speed = part_->largest_start_speed;
    }
    if (part.last < last) {
      const double* const quarter = std::upper_bound(t.data() + first, t.data() + end, t[end] - margin / 4);
      const size_t k = static_cast<size_t>(quarter - t.data()) - 1;
      if (passed.back() - passed[k - first] > (t[end] - t[k]) * kUnslowed) return false;
    }
    return true;
  };
  for (const double margin : kMargins) {
    const std::vector<Part> parts = parts_of(plan, margin);
    double all = 0;
    for (const Part& part : parts) all += t[static_cast<size_t>(part.last)] - t[static_cast<size_t>(part.first)];
    if (all > kMostPart * t.back()) return false;
    made.clear();
    delay = 0;
    largest_start_speed = 1;
    size_t row = 0;
    bool held = true;
    for (const Part& part : parts) {
      held = slow(part, margin);
      if (!held) break;
      const size_t first = static_cast<size_t>(part.first), end = static_cast<size_t>(part.last);
      const Played& slowed = part_->played;
      add_points(plan, row, first, delay);
      // The row where it begins is the plan's own, unless it is that of the motion.
      const size_t own = first > 0;
      if (own) add_points(plan, first, first + 1, delay);
      add_points(slowed, own, slowed.times.size() - (part.last < last), t[first] + delay);
      for (size_t k = row; k < first; ++k) made.row_times[k] = t[k] + delay;
      for (size_t k = first; k <= end; ++k) made.row_times[k] = t[first] + delay + slowed.row_times[k - first];
      std::copy(slowed.segment_ratio.begin(), slowed.segment_ratio.end(), made.segment_ratio.begin() + 3 * part.first);
      std::copy(slowed.segment_joint.begin(), slowed.segment_joint.end(), made.segment_joint.begin() + 3 * part.first);
      delay += slowed.row_times.back() - (t[end] - t[first]);
      row = end;
    }
    const size_t left = parts.back().last < last ? t.size() - row : 0, N = static_cast<size_t>(options.intervals);
    if (!held || made.times.size() + left > (quintic ? 2 * N + 1 + t.size() : std::max(N + 1, t.size()))) continue;
    if (parts.back().last < last) {
      add_points(plan, row, t.size(), delay);
      for (size_t k = row; k < t.size(); ++k) made.row_times[k] = t[k] + delay;
    }
    std::fill(made.ratio, made.ratio + 3, 0.0);
    for (size_t i = 0; i < made.segment_ratio.size(); ++i) {
      made.ratio[i % 3] = std::max(made.ratio[i % 3], made.segment_ratio[i]);
    }
    played = made;
    duration = played.times.back();
    return true;
  }
  return false;
}

}  // namespace traj_integrator::retiming
