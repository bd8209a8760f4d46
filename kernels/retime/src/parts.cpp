// Slows only the parts of a plan that exceed a limit; the rest keeps its times.
#include <cmath>

#include "trajectory.h"

namespace traj_integrator::retiming {
namespace {

// A plan is slowed from this time, s, before an excess to this time behind it; the second margin is for where the first
// is not enough.
constexpr double kMargins[] = {0.2, 0.8};
// A margin is wide enough if its outer quarter takes hardly longer.
constexpr double kUnslowed = 1 + 1e-4;
// Above this share of the plan, it is slowed as a whole.
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
    const double* const ratio = &plan.segment_ratio[3 * i];
    if (std::max({ratio[0], ratio[1], ratio[2]}) <= 1 + 1e-9) continue;
    int64_t from = i, to = i + 1;
    while (from > 0 && t[i] - t[from] < margin) --from;
    while (to < last && t[to] - t[i + 1] < margin) ++to;
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

// Points [begin, end) of another motion, later by a shift.
void append(Played& to, const Played& from, int64_t begin, int64_t end, double shift, int64_t dof, bool with_accelerations) {
  const auto add = [&](const std::vector<double>& values, std::vector<double>& all) {
    all.insert(all.end(), values.data() + begin * dof, values.data() + end * dof);
  };
  for (int64_t i = begin; i < end; ++i) to.times.push_back(from.times[i] + shift);
  add(from.position, to.position);
  add(from.velocity, to.velocity);
  if (with_accelerations) add(from.acceleration, to.acceleration);
}

// Returns whether the outer quarter of the margins takes hardly longer, where the plan goes on; t: the part's times.
bool is_unslowed(const double* t, int64_t rows, const std::vector<double>& passed, double margin, bool before, bool after) {
  const double *const end = t + rows - 1, quarter = margin / 4;
  const int64_t first = std::lower_bound(t, end, *t + quarter) - t, last = std::upper_bound(t, end, *end - quarter) - t - 1;
  return (!before || passed[first] <= (t[first] - *t) * kUnslowed) &&
         (!after || passed.back() - passed[last] <= (*end - t[last]) * kUnslowed);
}

}  // namespace

bool Retimer::slow_parts(const PathRows& rows, const Limits& limits, const Ends& ends) {
  const bool quintic = options_.order == 3;
  if (!whole_nanoseconds(played.row_times) || (!quintic && rows.acceleration != nullptr)) return false;
  const Played plan = played;
  const std::vector<double>& t = plan.row_times;
  const int64_t last = rows.rows - 1, dof = rows.dof, N = options_.intervals;
  if (part_ == nullptr) part_ = std::make_unique<Retimer>();
  const Played& slowed = part_->played;
  const auto slow = [&](const Part& part, double margin) {
    const int64_t first = part.first, count = part.last - first + 1;
    const auto from = [&](const std::vector<double>& values) { return values.empty() ? nullptr : &values[first * dof]; };
    const bool before = first > 0, after = part.last < last;
    Options options = options_;
    options.in_parts = false;
    options.joins_before |= before;
    options.joins_after |= after;
    options.intervals = std::max<int64_t>(8, std::lround(static_cast<double>(N) * (t[part.last] - t[first]) / t.back()));
    Ends moving = ends;
    if (before) moving.start_speed = 1, moving.start_acceleration = 0;
    if (after) moving.end_speed = 1, moving.end_acceleration = 0;
    const PathRows of_part{count, dof, from(plan.position), from(plan.velocity), from(plan.acceleration), rows.knots + first, false};
    const Status status = part_->retime(of_part, limits, moving, options);
    iterations += part_->iterations;
    rounds += part_->rounds;
    if (!before) largest_start_speed = part_->largest_start_speed;
    return status == Status::kDone && is_unslowed(&t[first], count, slowed.row_times, margin, before, after);
  };
  for (const double margin : kMargins) {
    const std::vector<Part> parts = parts_of(plan, margin);
    double all = 0;
    for (const Part& part : parts) all += t[part.last] - t[part.first];
    if (all > kMostPart * t.back()) return false;
    Played made = plan;
    made.clear();
    double delay = 0;
    largest_start_speed = 1;
    int64_t row = 0;
    const auto keep_until = [&](int64_t end) {
      append(made, plan, row, end, delay, dof, quintic);
      for (; row < end; ++row) made.row_times[row] = t[row] + delay;
    };
    bool held = true;
    for (const Part& part : parts) {
      held = slow(part, margin);
      if (!held) break;
      // The first row is the plan's own, unless it is the motion's.
      const int64_t own = part.first > 0, ended = part.last == last;
      keep_until(part.first + own);
      append(made, slowed, own, static_cast<int64_t>(slowed.times.size()) - !ended, t[part.first] + delay, dof, quintic);
      for (; row < part.last + ended; ++row) made.row_times[row] = t[part.first] + delay + slowed.row_times[row - part.first];
      std::copy(slowed.segment_ratio.begin(), slowed.segment_ratio.end(), made.segment_ratio.begin() + 3 * part.first);
      std::copy(slowed.segment_joint.begin(), slowed.segment_joint.end(), made.segment_joint.begin() + 3 * part.first);
      delay += slowed.row_times.back() - (t[part.last] - t[part.first]);
    }
    if (!held || static_cast<int64_t>(made.times.size()) + rows.rows - row > options_.most_points(rows.rows)) continue;
    keep_until(rows.rows);
    made.set_ratio();
    played = std::move(made);
    duration = played.times.back();
    return true;
  }
  return false;
}

}  // namespace traj_integrator::retiming
