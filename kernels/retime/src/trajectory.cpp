#include "trajectory.h"

#include <algorithm>
#include <cmath>

namespace traj_integrator::retiming {
namespace {

constexpr int kMostRounds = 8, kMostAttempts = 4;
// Of the limits, which is used where what is exceeded cannot be stretched.
constexpr double kNearly = 1 - 2e-5, kNearlyHeld = 1 + 1e-5;

bool is_finite(const double* values, int64_t count) {
  return values == nullptr || std::all_of(values, values + count, [](double x) { return std::isfinite(x); });
}

double stretch_for(const double* ratio) {
  return std::max({ratio[0], std::sqrt(ratio[1]), std::cbrt(ratio[2])});
}

}  // namespace

Status Retimer::retime(const PathRows& rows, const Limits& limits, const Ends& given, const Options& options) {
  unchanged = false;
  duration = largest_start_speed = 0;
  iterations = rounds = third.iterations = third.rounds = 0;
  played.clear();
  played.row_times.assign(static_cast<size_t>(rows.rows), 0.0);
  played.segment_ratio.assign(static_cast<size_t>(3 * (rows.rows - 1)), 0.0);
  played.segment_joint.assign(static_cast<size_t>(3 * (rows.rows - 1)), -1);
  std::fill(played.ratio, played.ratio + 3, 0.0);
  const int64_t size = rows.rows * rows.dof;
  if (!is_finite(rows.position, size) || !is_finite(rows.velocity, size) || !is_finite(rows.acceleration, size) ||
      !is_finite(rows.knots, rows.rows)) {
    return Status::kNotFinite;
  }
  if (!path.build(rows)) {
    played.times.assign(1, 0.0);
    played.position.assign(rows.position, rows.position + rows.dof);
    played.velocity.assign(static_cast<size_t>(rows.dof), 0.0);
    if (options.order == 3) played.acceleration = played.velocity;
    played.segment.assign(1, 0);
    return Status::kStill;
  }
  segment_of_piece_.assign(static_cast<size_t>(path.pieces()), 0);
  for (int64_t i = 0; i + 1 < rows.rows; ++i) {  // the last of the rows that share a knot
    const int64_t knot = path.knot_of_row()[static_cast<size_t>(i)];
    if (knot < path.pieces()) segment_of_piece_[static_cast<size_t>(knot)] = i;
  }
  Ends ends = given;
  if (options.slow_only) {
    if (plan_keeps(rows, limits, options)) {
      unchanged = true;
      return Status::kDone;
    }
    if (options.in_parts && slow_parts(rows, limits, given, options)) return Status::kDone;
    const auto rests = [&](int64_t piece, double s) {
      std::vector<double> q1(static_cast<size_t>(rows.dof));
      path.evaluate(piece, s, nullptr, q1.data(), nullptr, nullptr);
      double most = 0;
      for (int64_t j = 0; j < rows.dof; ++j) most = std::max(most, std::abs(q1[static_cast<size_t>(j)]) / limits.velocity[j]);
      return most < 1e-9;
    };
    ends.free_start = !options.joins_before && rests(0, path.begin());
    ends.free_end = !options.joins_after && rests(path.pieces() - 1, path.end());
  }
  double speed_per_rate = 1;  // of the joints, by ds/dt
  if (!options.slow_only) {
    speed_per_rate = along_path(0, path.begin(), ends.start_speed, ends.start_acceleration);
    along_path(path.pieces() - 1, path.end(), ends.end_speed, ends.end_acceleration);
  }
  const bool rests = ends.rests_before() && ends.rests_after(), searches = options.duration > 0 && !rests;
  // What exceeds a little is stretched in the end, if that is allowed.
  const double enough = !rests ? kHeld : options.slow_only ? kNearlyHeld : kAlmostHeld;
  const auto excess = [&] { return rests ? stretch_for(played.ratio) : worst_of(played.ratio); };
  const auto make = [&] {
    play(options);
    certify(limits, options.order == 3);
  };
  const auto judge = [&] { options.order == 3 ? make() : second.judge(limits, interval_ratio_, played.ratio); };
  const auto solve_once = [&](const Limits& within) {
    const Status status = searches ? solve_for_duration(within, ends, options) : solve(within, ends, options);
    if (status != Status::kDone && status != Status::kExceeds) return status;
    if (options.hold || options.order == 3) judge();
    // Where what is played exceeds a limit, it is tightened there.
    for (int round = 0; round < kMostRounds && options.hold && !searches && excess() > enough; ++round) {
      if (!(options.order == 3 ? third.tighten(interval_ratio_) : second.tighten(interval_ratio_, within, ends))) break;
      judge();
    }
    return status;
  };
  Status status = solve_once(limits);
  if (status == Status::kStartTooFast) {
    const auto [kind, joint] = second.binding_at_start(limits);
    played.segment_ratio[static_cast<size_t>(kind)] = ends.start_speed / largest_start_speed;
    played.segment_joint[static_cast<size_t>(kind)] = joint;
  }
  largest_start_speed *= speed_per_rate;
  if (status != Status::kDone && status != Status::kExceeds) return status;
  const auto stretch_by = [&](double factor) {
    options.order == 3 ? third.stretch(factor) : second.stretch(factor);
    make();
  };
  if (options.hold && rests) {
    // Again where rounding gives a very short motion other ratios afterwards.
    for (int k = 0; k < kMostAttempts; ++k) {
      const double factor = stretch_for(played.ratio);
      if (factor > (k == 0 ? 1 : kNearlyHeld)) stretch_by(factor * (1 + 1e-9));
      else if (k == 0 && options.order == 2) make();
      else break;
    }
    if (worst_of(played.ratio) > kAlmostHeld) status = Status::kExceeds;
  } else if (options.hold) {
    const double largest = largest_start_speed;
    status = tighten(limits, solve_once);
    largest_start_speed = largest;
    if (options.order == 2) make();
  } else {
    make();
  }
  if (options.duration > 0 && rests) {
    duration = played.times.back();
    if (options.duration < duration * (1 - 1e-9)) return Status::kTooShort;
    stretch_by(options.duration / duration);
  }
  for (size_t i = 0; i < played.row_times.size(); ++i) {
    const size_t knot = static_cast<size_t>(path.knot_of_row()[i]);
    played.row_times[i] = row_times_of_knots_[knot];
  }
  duration = played.times.back();
  iterations = third.iterations;
  rounds = third.rounds;
  return status;
}

// From the length of the joint velocity and its derivative to those of the phase; returns the length for ds/dt = 1.
double Retimer::along_path(int64_t piece, double s, double& speed, double& acceleration) const {
  const size_t dof = static_cast<size_t>(path.dof());
  std::vector<double> q1(dof), q2(dof);
  path.evaluate(piece, s, nullptr, q1.data(), q2.data(), nullptr);
  double square = 0, bend = 0;
  for (size_t j = 0; j < dof; ++j) {
    square += q1[j] * q1[j];
    bend += q1[j] * q2[j];
  }
  const double length = std::sqrt(square);
  if (!(length > 0)) return 1;
  speed /= length;
  acceleration = (acceleration - bend / length * speed * speed) / length;
  return length;
}

// A motion with a moving end cannot be stretched: limits are lowered a little by what is exceeded.
template <class Solve>
Status Retimer::tighten(const Limits& limits, const Solve& solve_once) {
  const size_t dof = static_cast<size_t>(path.dof());
  double scale[3] = {1, 1, 1}, before[3] = {1, 1, 1};
  const auto lowered = [&](const double* by) {
    lowered_.resize(4 * dof);
    for (size_t j = 0; j < dof; ++j) {
      lowered_[j] = limits.velocity[j] / by[0];
      lowered_[dof + j] = limits.lowest[j] / by[1];
      lowered_[2 * dof + j] = limits.highest[j] / by[1];
      lowered_[3 * dof + j] = limits.jerk[j] / by[2];
    }
    const double* const at = lowered_.data();
    return solve_once({at, at + dof, at + 2 * dof, at + 3 * dof});
  };
  const auto worst = [&] { return worst_of(played.ratio); };
  for (int attempt = 0; attempt < kMostAttempts && worst() > kHeld; ++attempt) {
    const double was = worst();
    for (int k = 0; k < 3; ++k) {
      before[k] = scale[k];
      if (played.ratio[k] > kHeld) scale[k] *= played.ratio[k] / kNearly;
    }
    const Status status = lowered(scale);
    if ((status != Status::kDone && status != Status::kExceeds) || worst() > was) {
      lowered(before);  // it has been solved before
      break;
    }
  }
  return worst() <= kAlmostHeld ? Status::kDone : Status::kExceeds;
}

Status Retimer::solve(const Limits& limits, const Ends& ends, const Options& options) {
  if (options.order == 3) return solve_third(limits, ends, options);
  second.set_grid(path, options.intervals);
  const Status status = second.solve(limits, ends, options.slow_only);
  if (status != Status::kNotFinite) largest_start_speed = second.largest_start_speed();
  return status;
}

Status Retimer::solve_third(const Limits& limits, const Ends& ends, const Options& options) {
  // Without jerk it is quick: the largest start speed, and the base law.
  second.set_grid(path, options.intervals);
  Status status = second.solve(limits, ends, options.slow_only);
  largest_start_speed = second.largest_start_speed();
  if (status != Status::kDone) return status;
  if (options.slow_only) {
    third.tolerance = 1e-6;
    third.base.identity(path.begin(), path.end(), options.intervals);
    return third.solve(path, limits, ends, true, kNearly);
  }
  third.tolerance = 1e-5;
  for (const double width : {1.0, 0.3, 0.1, 3.0}) {
    third.base.smooth(second, limits, ends, path.dof(), options.intervals, width);
    status = third.solve(path, limits, ends, false, ends.rests_before() && ends.rests_after() ? 1 : kNearly);
    if (status == Status::kDone) break;
  }
  return status;
}

Status Retimer::solve_for_duration(const Limits& limits, const Ends& ends, const Options& options) {
  const auto shortest = [&] { return options.order == 3 ? third.times().back() : second.times().back(); };
  Status status = solve(limits, ends, options);
  if (status != Status::kDone) return status;
  const double wanted = options.duration;
  if (wanted < shortest() * (1 - 1e-9)) {
    duration = shortest();
    return Status::kTooShort;
  }
  // A moving start cannot be stretched: the limits are lowered as a stretch by 1 / scale would, until it takes as long.
  const int64_t dof = path.dof();
  scratch_.resize(static_cast<size_t>(4 * dof));
  double low = 0, high = 1;
  for (int step = 0; step < 60 && std::abs(shortest() / wanted - 1) > 1e-9; ++step) {
    const double scale = (low + high) / 2;
    for (int64_t j = 0; j < dof; ++j) {
      scratch_[static_cast<size_t>(j)] = limits.velocity[j] * scale;
      scratch_[static_cast<size_t>(dof + j)] = limits.lowest[j] * scale * scale;
      scratch_[static_cast<size_t>(2 * dof + j)] = limits.highest[j] * scale * scale;
      scratch_[static_cast<size_t>(3 * dof + j)] = limits.jerk[j] * scale * scale * scale;
    }
    const double* const at = scratch_.data();
    status = solve({at, at + dof, at + 2 * dof, at + 3 * dof}, ends, options);
    const bool too_slow = status != Status::kDone || shortest() > wanted;
    (too_slow ? low : high) = scale;
  }
  return status == Status::kDone && std::abs(shortest() / wanted - 1) < 1e-6 ? Status::kDone : Status::kTooLong;
}

}  // namespace traj_integrator::retiming
