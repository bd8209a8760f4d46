#include "trajectory.h"

#include <algorithm>
#include <bit>
#include <cmath>

#include "certificate.h"
#include "rows.h"

namespace traj_integrator::retiming {
namespace {

// Nodes closer to a knot of the path are left out, s: rounding would give large jerks between them.
constexpr double kLeastGap = 2e-4;
// A third of the shortest interval, where intervals are shorter than that.
constexpr double kLeastPart = 0.3;
constexpr double kNanosecond = 1e-9;
constexpr int kMostRounds = 8, kMostAttempts = 4;
// Of the limits, which is used where what is exceeded cannot be stretched.
constexpr double kNearly = 1 - 2e-5, kNearlyHeld = 1 + 1e-5;

bool is_finite(const double* values, int64_t count) {
  return values == nullptr || std::all_of(values, values + count, [](double x) { return std::isfinite(x); });
}

double worst_of(const double* ratio) { return std::max({ratio[0], ratio[1], ratio[2]}); }

double stretch_for(const double* ratio) {
  return std::max({ratio[0], std::sqrt(ratio[1]), std::cbrt(ratio[2])});
}

}  // namespace

Status Retimer::retime(const PathRows& rows, const Limits& limits, const Ends& given, const Options& options) {
  unchanged = false;
  duration = largest_start_speed = 0;
  iterations = rounds = third.iterations = third.rounds = 0;
  played.times.clear();
  played.position.clear();
  played.velocity.clear();
  played.acceleration.clear();
  played.segment.clear();
  played.interval.clear();
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
  const auto solve_once = [&](const Limits& within) {
    const Status status = searches ? solve_for_duration(within, ends, options) : solve(within, ends, options);
    if (status != Status::kDone && status != Status::kExceeds) return status;
    play(options);
    certify(limits, options.order == 3);
    // Where what is played exceeds a limit, it is tightened there.
    for (int round = 0; round < kMostRounds && options.hold && !searches && excess() > enough; ++round) {
      if (!(options.order == 3 ? third.tighten(interval_ratio_) : second.tighten(interval_ratio_, within, ends))) break;
      play(options);
      certify(limits, options.order == 3);
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
    stretch(factor, options);
    play(options);
    certify(limits, options.order == 3);
  };
  if (options.hold && rests) {
    // Again where rounding gives a very short motion other ratios afterwards.
    for (int k = 0; k < kMostAttempts && stretch_for(played.ratio) > (k == 0 ? 1 : kNearlyHeld); ++k) {
      stretch_by(stretch_for(played.ratio) * (1 + 1e-9));
    }
    if (worst_of(played.ratio) > kAlmostHeld) status = Status::kExceeds;
  } else if (options.hold) {
    const double largest = largest_start_speed;
    status = tighten(limits, solve_once);
    largest_start_speed = largest;
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

void Retimer::stretch(double factor, const Options& options) {
  options.order == 3 ? third.stretch(factor) : second.stretch(factor);
}

void Retimer::add_point(double time, int64_t piece, double s, double speed, double acceleration, bool with_acceleration) {
  const size_t dof = static_cast<size_t>(path.dof()), at = played.position.size();
  played.times.push_back(time);
  played.segment.push_back(segment_of_piece_[static_cast<size_t>(piece)]);
  played.position.resize(at + dof);
  played.velocity.resize(at + dof);
  scratch_.resize(std::max(scratch_.size(), dof));
  double* const q2 = scratch_.data();
  path.evaluate(piece, s, played.position.data() + at, played.velocity.data() + at, with_acceleration ? q2 : nullptr, nullptr);
  double* const q1 = played.velocity.data() + at;
  if (with_acceleration) {
    played.acceleration.resize(at + dof);
    for (size_t j = 0; j < dof; ++j) played.acceleration[at + j] = q2[j] * speed * speed + q1[j] * acceleration;
  }
  for (size_t j = 0; j < dof; ++j) q1[j] *= speed;
}

void Retimer::play(const Options& options) {
  played.times.clear();
  played.position.clear();
  played.velocity.clear();
  played.acceleration.clear();
  played.segment.clear();
  played.interval.clear();
  row_times_of_knots_.assign(path.knots().size(), 0.0);
  const auto rounded = [](double time) { return std::round(time / kNanosecond) * kNanosecond; };
  if (options.order == 2) {
    for (int64_t i = 0; i <= second.intervals(); ++i) {
      const size_t at = static_cast<size_t>(i);
      const int64_t piece = second.piece(std::min(i, second.intervals() - 1));
      // The first-order difference of a rounded time.
      const double t = second.times()[at], speed = std::sqrt(second.x()[at]), tick = rounded(t) - t;
      const double u = i < second.intervals()
                           ? (second.x()[at + 1] - second.x()[at]) / (2 * (second.s()[at + 1] - second.s()[at])) : 0;
      add_point(rounded(t), piece, std::clamp(second.s()[at] + tick * speed, path.begin(), path.end()), speed + (speed > 0 ? tick * u : 0), 0, false);
      played.interval.push_back(i);
      if (i < second.intervals() && second.s()[at] == path.knots()[static_cast<size_t>(piece)]) row_times_of_knots_[static_cast<size_t>(piece)] = played.times.back();
    }
    row_times_of_knots_.back() = played.times.back();
    return;
  }
  const int64_t N = third.base.intervals();
  const std::vector<KnotPlace>& knots = third.knots();
  const auto add = [&](int64_t k, double e, int64_t piece, double t) {
    double yuw[3], s[4];
    const double at = rounded(t);
    third.rate_at(k, e, yuw);
    double part = e + (at - t) * std::sqrt(yuw[0]) / third.base.h;
    if ((k == 0 && e == 0) || (k + 1 == N && e == 1)) part = e;
    third.rate_at(k, part, yuw);
    third.base.evaluate(k, part, s);
    if (k + 1 == N && e == 1) s[0] = path.end();
    played.interval.push_back(k);
    add_point(at, piece, s[0], s[1] * std::sqrt(yuw[0]), s[2] * yuw[0] + s[1] * yuw[1], true);
  };
  size_t next = 0;
  int64_t piece = 0;
  double last_knot = -1;
  for (int64_t k = 0; k < N; ++k) {
    const double length = third.times()[static_cast<size_t>(k) + 1] - third.times()[static_cast<size_t>(k)];
    const double gap = std::min(kLeastGap, kLeastPart * length);
    for (int half = 0; half < 2; ++half) {
      const double e = 0.5 * half, until = half == 1 ? 1.0 : 0.5, t = third.time_at(k, e);
      const bool is_knot = next < knots.size() && knots[next].interval == k && knots[next].part == e;
      const bool knot_ahead = next < knots.size() && !is_knot &&
                              (knots[next].interval == k || (knots[next].interval == k + 1 && knots[next].part == 0)) &&
                              third.time_at(knots[next].interval, knots[next].part) - t < gap;
      const bool is_end = k == 0 && half == 0;
      if (is_knot || is_end || (!knot_ahead && t - last_knot >= gap)) {
        if (is_knot) {
          piece = knots[next].piece;
          last_knot = t;
        }
        add(k, e, piece, t);
        if (is_knot) row_times_of_knots_[static_cast<size_t>(knots[next++].piece)] = played.times.back();
      }
      while (next < knots.size() && knots[next].interval == k && knots[next].part < until) {
        const double time = third.time_at(k, knots[next].part);
        piece = knots[next].piece;
        if (time - last_knot >= gap / 4 && third.times().back() - time > gap / 4 && time > gap / 4) {
          add(k, knots[next].part, piece, time);
          last_knot = time;
        }
        row_times_of_knots_[static_cast<size_t>(piece)] = rounded(time);
        ++next;
      }
    }
  }
  add(N - 1, 1, path.pieces() - 1, third.times().back());
  row_times_of_knots_.back() = played.times.back();
}

void Retimer::certify(const Limits& limits, bool with_jerk) {
  std::fill(played.ratio, played.ratio + 3, 0.0);
  std::fill(played.segment_ratio.begin(), played.segment_ratio.end(), 0.0);
  const int64_t dof = path.dof();
  interval_ratio_.assign(static_cast<size_t>(played.interval.empty() ? 0 : 3 * (played.interval.back() + 1)), 0.0);
  // Some more numbers than there are, for the vectors.
  for (auto* each : {&played.position, &played.velocity, &played.acceleration}) each->reserve(each->size() + kLanes);
  padded_limits_.resize(static_cast<size_t>(4 * (dof + kLanes)));
  const double* const given[] = {limits.velocity, limits.lowest, limits.highest, limits.jerk};
  const bool quintic = !played.acceleration.empty();
  Piece piece{};
  piece.dof = dof;
  for (int k = 0; k < 4; ++k) {
    double* const to = padded_limits_.data() + k * (dof + kLanes);
    for (int64_t j = 0; j < dof; ++j) {
      const double limit = k == 3 && !with_jerk ? INFINITY : given[k][j];
      to[j] = quintic ? limit : 1 / limit;
    }
    piece.limit[k] = to;
  }
  const Limits bounds{piece.limit[0], piece.limit[1], piece.limit[2], piece.limit[3]};
  const RowLoops& loops = row_loops();
  for (size_t p = 0; p + 1 < played.times.size(); ++p) {
    const size_t segment = 3 * static_cast<size_t>(played.segment[p]), at = p * static_cast<size_t>(dof);
    double* const most = played.segment_ratio.data() + segment;
    piece.span = played.times[p + 1] - played.times[p];
    piece.p = played.position.data() + at;
    piece.v = played.velocity.data() + at;
    piece.a = quintic ? played.acceleration.data() + at : nullptr;
    // Extremes that are not greater than the segment's are of no interest. Greater than 0: limits may be infinite.
    for (int k = 0; k < 3; ++k) piece.known[k] = std::clamp(most[k], 1e-300, 1.0);
    for (int64_t first = 0; first < dof; first += kLanes) {
      double of_cubics[3 * kLanes];
      for (uint32_t left = loops.may_exceed(piece, first, of_cubics); left != 0; left &= left - 1) {
        const int64_t lane = std::countr_zero(left), j = first + lane, next = j + dof;
        double ratio[3] = {of_cubics[lane], of_cubics[kLanes + lane], of_cubics[2 * kLanes + lane]};
        if (quintic) {
          double c[kDegree + 1], low[kOrders] = {-INFINITY}, high[kOrders] = {INFINITY};
          for (int k = 0; k < 3; ++k) {
            high[k + 1] = piece.known[k] * piece.limit[k == 0 ? 0 : k + 1][j];
            low[k + 1] = k == 1 ? piece.known[k] * piece.limit[1][j] : -high[k + 1];
          }
          piece_between(piece.span, piece.p[j], piece.p[next], piece.v + j, piece.v + next, piece.a + j, piece.a + next, c);
          widen_by_piece(c, piece.span, low, high);
          ratios(low, high, bounds, j, ratio);
        }
        for (size_t k = 0; k < 3; ++k) {
          if (!played.interval.empty()) {
            double& of = interval_ratio_[static_cast<size_t>(3 * played.interval[p]) + k];
            of = std::max(of, ratio[k]);
          }
          if (ratio[k] > most[k] * (1 + 1e-12)) {
            most[k] = ratio[k];
            played.segment_joint[segment + k] = j;
          }
        }
      }
    }
  }
  for (size_t i = 0; i < played.segment_ratio.size(); ++i) {
    played.ratio[i % 3] = std::max(played.ratio[i % 3], played.segment_ratio[i]);
  }
}

// Whether a plan keeps its limits as it is; then it is played as it came.
bool Retimer::plan_keeps(const PathRows& rows, const Limits& limits, const Options& options) {
  const size_t dof = static_cast<size_t>(rows.dof);
  played.row_times.resize(static_cast<size_t>(rows.rows));
  scratch_.resize(std::max(scratch_.size(), dof));
  for (int64_t i = 0; i < rows.rows; ++i) {
    const double t = rows.knots[i];
    const int64_t piece = std::min(i, path.pieces() - 1);
    add_point(t - rows.knots[0], piece, t, 1, 0, true);
    played.row_times[static_cast<size_t>(i)] = t - rows.knots[0];
  }
  // The rows as they were given, to the last bit.
  std::copy(rows.position, rows.position + rows.rows * rows.dof, played.position.begin());
  if (rows.velocity != nullptr) std::copy(rows.velocity, rows.velocity + rows.rows * rows.dof, played.velocity.begin());
  if (rows.acceleration != nullptr) {
    std::copy(rows.acceleration, rows.acceleration + rows.rows * rows.dof, played.acceleration.begin());
  }
  if (rows.velocity != nullptr && rows.acceleration == nullptr) played.acceleration.clear();  // cubics, as they came
  certify(limits, options.order == 3);
  duration = played.times.back();
  return worst_of(played.ratio) <= 1 + 1e-9;
}

}  // namespace traj_integrator::retiming
