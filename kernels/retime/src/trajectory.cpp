#include "trajectory.h"

#include <cmath>

namespace traj_integrator::retiming {
namespace {

constexpr int kMostRounds = 8, kMostAttempts = 4, kMostTrials = 8;
// Share of the limits that is used if an excess cannot be stretched.
constexpr double kNearly = 1 - 2e-5, kNearlyHeld = 1 + 1e-5;
// Tolerances of a wanted duration with moving ends: one that counts as met, and one that can be slowed to it.
constexpr double kAsWanted = 1e-6, kNearlyAsLong = 3e-3;
constexpr int kMostHalvings = 60;
// Speed, rad/s, below which an end of a plan that exceeds a limit counts as resting, as ends of paths do, and its share of limits
// of velocity.
constexpr double kResting = 2e-5, kShareResting = 1e-9;
// Factor on the range of samples for extremes between them; so many samples lie in a piece of the path.
constexpr double kWider = 1.1;
constexpr int64_t kSamples = 8;
// Third order: no finer grid than this, s, as far as each piece has some intervals: played pieces of a motion of some ms would be
// so short that the digits of their positions are a jerk.
constexpr double kFinest = 1e-4;
constexpr int64_t kFewestPerPiece = 4;

bool is_finite(const double* values, int64_t count) {
  return values == nullptr || std::all_of(values, values + count, [](double x) { return std::isfinite(x); });
}

}  // namespace

Status Retimer::retime(const PathRows& rows, const Limits& limits, const Ends& ends, const Options& options) {
  ends_ = ends;
  options_ = options;
  unchanged = false;
  duration = largest_start_speed = 0;
  third.iterations = third.rounds = 0;
  played.clear();
  played.row_times.assign(rows.rows, 0.0);
  played.segment_ratio.assign(3 * (rows.rows - 1), 0.0);
  played.segment_joint.assign(3 * (rows.rows - 1), -1);
  played.set_ratio();
  const int64_t size = rows.rows * rows.dof;
  if (!is_finite(rows.position, size) || !is_finite(rows.velocity, size) || !is_finite(rows.acceleration, size) ||
      !is_finite(rows.knots, rows.rows)) {
    return Status::kNotFinite;
  }
  if (!path.build(rows, options.order == 3 && !options.slow_only)) {
    played.times.assign(1, 0.0);
    played.position.assign(rows.position, rows.position + rows.dof);
    played.velocity.assign(rows.dof, 0.0);
    if (options.order == 3) played.acceleration = played.velocity;
    return Status::kStill;
  }
  segment_of_piece_.assign(path.pieces(), 0);
  for (int64_t i = 0; i + 1 < rows.rows; ++i) {  // the last of the rows that share a knot
    const int64_t knot = path.knot_of_row()[i];
    if (knot < path.pieces()) segment_of_piece_[knot] = i;
  }
  for (int64_t m = 1; m < path.pieces(); ++m) segment_of_piece_[m] = std::max(segment_of_piece_[m], segment_of_piece_[m - 1]);
  if (options.slow_only) {
    unchanged = plan_keeps(rows, limits);
    if (unchanged || (options.in_parts && slow_parts(rows, limits, ends))) return Status::kDone;
    const auto rests = [&](int64_t piece, double s) {
      std::vector<double> q1(rows.dof);
      path.evaluate(piece, s, nullptr, q1.data(), nullptr, nullptr);
      for (int64_t j = 0; j < rows.dof; ++j) {
        if (std::abs(q1[j]) >= kResting && std::abs(q1[j]) * limits.inverse[kVelocity][j] >= kShareResting) return false;
      }
      return true;
    };
    ends_.free_start = !options.joins_before && rests(0, path.begin());
    ends_.free_end = !options.joins_after && rests(path.pieces() - 1, path.end());
  }
  const Status status = time(limits);
  if (!has_motion(status)) return status;
  for (int64_t i = 0; i < rows.rows; ++i) played.row_times[i] = knot_times_[path.knot_of_row()[i]];
  if (!is_finite(played.row_times.data(), rows.rows) || !std::isfinite(played.times.back())) return Status::kNotConverged;
  duration = played.times.back();
  iterations = third.iterations;
  rounds = third.rounds;
  return status;
}

// The motion along the path, and its certificate.
Status Retimer::time(const Limits& limits) {
  double speed_per_rate = 1;  // length of the joint velocity for ds/dt = 1
  if (!options_.slow_only) {
    speed_per_rate = along_path(0, path.begin(), ends_.start_speed, ends_.start_acceleration);
    along_path(path.pieces() - 1, path.end(), ends_.end_speed, ends_.end_acceleration);
  }
  const bool smooth = options_.order == 3, rests = ends_.rests(), searches = options_.duration > 0 && !rests;
  // A small excess is stretched in the end, if that is allowed.
  const double enough = !rests ? kHeld : options_.slow_only ? kNearlyHeld : kAlmostHeld;
  const auto excess_of = [&](const double* ratio) { return rests ? stretch_for(ratio) : *std::max_element(ratio, ratio + 3); };
  const auto make = [&] {
    play();
    certify(limits);
  };
  const auto solve_once = [&](const Limits& within) {
    const Status status = searches ? solve_for_duration(within) : solve(within);
    if (!has_motion(status)) return status;
    make();
    // Where the played motion exceeds a limit, it is tightened.
    const auto tighten = [&] {
      for (int round = 0; round < kMostRounds && options_.hold && !searches && excess_of(played.ratio) > enough; ++round) {
        if (!(smooth ? third.tighten(interval_ratio_, excess_of, enough) : second_.tighten(interval_ratio_))) break;
        make();
      }
    };
    tighten();
    for (int trial = 0; trial < kMostTrials && smooth && !options_.slow_only && !searches; ++trial) {
      if (!third.rest_where_beyond(path, within, ends_, interval_ratio_)) break;
      make();
      tighten();
    }
    return status;
  };
  Status status = solve_once(smooth && rests && !options_.slow_only ? limits.reached_within(kWider * range()) : limits);
  if (status == Status::kStartTooFast) {
    const auto [kind, joint] = second_.binding_at_start();
    played.segment_ratio[kind] = ends_.start_speed / second_.largest_start_speed();
    played.segment_joint[kind] = joint;
  }
  largest_start_speed = second_.largest_start_speed() * speed_per_rate;
  if (!has_motion(status)) return status;
  if (options_.hold && !rests) {
    status = lower_limits(limits, solve_once);
  } else if (options_.hold) {
    // Repeated, because rounding gives a very short motion other ratios afterwards.
    for (int k = 0; k < kMostAttempts; ++k) {
      const double factor = stretch_for(played.ratio);
      if (factor <= (k == 0 ? 1 : kNearlyHeld)) break;
      smooth ? third.stretch_beyond(interval_ratio_) : second_.stretch(factor * (1 + 1e-9));
      make();
    }
    if (played.worst() > kAlmostHeld) status = Status::kExceeds;
  }
  if (smooth && !options_.slow_only && !searches && status == Status::kDone) {
    if (third.is_too_long(path, second_)) return Status::kNotConverged;
    if (!third.as_meant()) status = Status::kWithRests;
  }
  if (options_.duration > 0 && rests) {
    duration = played.times.back();
    if (options_.duration < duration * (1 - 1e-9)) return Status::kTooShort;
    const double factor = options_.duration / duration;
    smooth ? third.stretch(factor) : second_.stretch(factor);
    make();
  }
  return status;
}

// The greatest range of any joint.
double Retimer::range() const {
  const int64_t dof = path.dof();
  std::vector<double> q(dof), low(dof, INFINITY), high(dof, -INFINITY);
  for (int64_t i = 0; i <= kSamples * path.pieces(); ++i) {
    const int64_t m = std::min(i / kSamples, path.pieces() - 1);
    const double from = path.knots()[m], part = static_cast<double>(i - m * kSamples) / kSamples;
    path.evaluate(m, from + part * (path.knots()[m + 1] - from), q.data(), nullptr, nullptr, nullptr);
    for (int64_t j = 0; j < dof; ++j) low[j] = std::min(low[j], q[j]), high[j] = std::max(high[j], q[j]);
  }
  double widest = 0;
  for (int64_t j = 0; j < dof; ++j) widest = std::max(widest, high[j] - low[j]);
  return widest;
}

// From the length of the joint velocity and its derivative to those of the phase; returns the length for ds/dt = 1.
double Retimer::along_path(int64_t piece, double s, double& speed, double& acceleration) const {
  const int64_t dof = path.dof();
  std::vector<double> q1(dof), q2(dof);
  path.evaluate(piece, s, nullptr, q1.data(), q2.data(), nullptr);
  double square = 0, bend = 0;
  for (int64_t j = 0; j < dof; ++j) {
    square += q1[j] * q1[j];
    bend += q1[j] * q2[j];
  }
  const double length = std::sqrt(square);
  if (!(length > 0)) return 1;
  speed /= length;
  acceleration = (acceleration - bend / length * speed * speed) / length;
  return length;
}

// A motion with a moving end cannot be stretched: limits are lowered a little by the excess.
template <class Solve>
Status Retimer::lower_limits(const Limits& limits, const Solve& solve_once) {
  double scale[3] = {1, 1, 1}, before[3] = {1, 1, 1};
  const auto lowered = [&](const double* by) { return solve_once(limits.scaled(1 / by[0], 1 / by[1], 1 / by[2])); };
  for (int attempt = 0; attempt < kMostAttempts && played.worst() > kHeld; ++attempt) {
    const double was = played.worst();
    for (int k = 0; k < 3; ++k) {
      before[k] = scale[k];
      if (played.ratio[k] > kHeld) scale[k] *= played.ratio[k] / kNearly;
    }
    if (!has_motion(lowered(scale)) || played.worst() > was) {
      lowered(before);  // it has been solved before
      break;
    }
  }
  return played.worst() <= kAlmostHeld ? Status::kDone : Status::kExceeds;
}

Status Retimer::solve(const Limits& limits) {
  // Without jerk it is quick: it gives the largest start speed, and the base law.
  Status status = second_.solve(path, options_.intervals, limits, ends_, options_.slow_only);
  if (status != Status::kDone || options_.order == 2) return status;
  const double finest = options_.slow_only ? INFINITY : second_.times().back() / kFinest;
  const int64_t enough = finest < static_cast<double>(options_.intervals) ? static_cast<int64_t>(finest) : options_.intervals;
  const int64_t fewest = std::min(kFewestPerPiece * path.pieces(), options_.intervals);
  return third.solve(path, second_, limits, ends_, std::max(enough, fewest), options_.slow_only);
}

Status Retimer::solve_for_duration(const Limits& limits) {
  const auto shortest = [&] { return options_.order == 3 ? third.duration() : second_.times().back(); };
  Status status = solve(limits);
  if (status != Status::kDone) return status;
  const double wanted = options_.duration;
  if (wanted < shortest() * (1 - 1e-9)) {
    duration = shortest();
    return Status::kTooShort;
  }
  // A moving start cannot be stretched: the limits are lowered as a stretch by 1 / scale would, until it takes as long. The
  // third order's duration jumps where other rows come to bind: a motion that takes a little less is slowed in the end.
  const bool smooth = options_.order == 3;
  const double shorter = smooth ? kNearlyAsLong : kAsWanted;
  const auto takes_enough = [&] { return status == Status::kDone && shortest() <= wanted * (1 + kAsWanted) && shortest() >= wanted * (1 - shorter); };
  double low = 0, high = 1;
  for (int step = 0; step < kMostHalvings && !takes_enough(); ++step) {
    const double scale = (low + high) / 2;
    status = solve(limits.scaled(scale, scale * scale, scale * scale * scale));
    (status != Status::kDone || shortest() > wanted ? low : high) = scale;
  }
  if (smooth && takes_enough()) third.slow_to(wanted);
  return status == Status::kDone && std::abs(shortest() / wanted - 1) <= kAsWanted ? Status::kDone : Status::kTooLong;
}

}  // namespace traj_integrator::retiming
