// The played trajectory: points, and the certificate of the motion between them.
#include <bit>
#include <cmath>

#include "polynomials.h"
#include "rows.h"
#include "trajectory.h"

namespace traj_integrator::retiming {
namespace {

// Nodes closer than this, s, to a knot of the path are left out: rounding would give large jerks between them.
constexpr double kLeastGap = 2e-4;
// A third of the shortest interval, where intervals are shorter than that.
constexpr double kLeastPart = 0.3;
constexpr double kNanosecond = 1e-9;
// Number of intervals in each piece of the path from which on their middles are not played.
constexpr int64_t kFine = 30;

double rounded(double time) { return std::round(time / kNanosecond) * kNanosecond; }

}  // namespace

void Retimer::add_point(double time, int64_t piece, double s, double speed, double acceleration) {
  const int64_t dof = path.dof(), at = static_cast<int64_t>(played.position.size());
  played.times.push_back(time);
  played.segment.push_back(segment_of_piece_[piece]);
  for (auto* each : {&played.position, &played.velocity, &played.acceleration}) each->resize(at + dof);
  double *const q1 = &played.velocity[at], *const q2 = &played.acceleration[at];
  path.evaluate(piece, s, &played.position[at], q1, q2, nullptr);
  for (int64_t j = 0; j < dof; ++j) {
    q2[j] = q2[j] * speed * speed + q1[j] * acceleration;
    q1[j] *= speed;
  }
}

void Retimer::play() {
  played.clear();
  knot_times_.assign(path.knots().size(), 0.0);
  options_.order == 2 ? play_second() : play_third();
  knot_times_.back() = played.times.back();
}

void Retimer::play_second() {
  const std::vector<double>&s = second_.s(), &x = second_.x();
  const int64_t dof = path.dof(), last = second_.intervals();
  played.position.resize((last + 1) * dof);
  played.velocity.resize(played.position.size());
  for (int64_t i = 0; i <= last; ++i) {
    const int64_t piece = second_.piece(std::min(i, last - 1));
    // The first-order difference of a rounded time.
    const double t = second_.times()[i], at = rounded(t), tick = at - t, speed = std::sqrt(x[i]);
    const double u = i < last ? (x[i + 1] - x[i]) / (2 * (s[i + 1] - s[i])) : 0;
    const double ds = std::clamp(s[i] + tick * speed, path.begin(), path.end()) - s[i], rate = speed + (speed > 0 ? tick * u : 0);
    const double *const q = second_.position(i), *const q1 = second_.derivative(i, 1), *const q2 = second_.derivative(i, 2);
    double *const p = &played.position[i * dof], *const v = &played.velocity[i * dof];
    for (int64_t j = 0; j < dof; ++j) {
      p[j] = q[j] + q1[j] * ds;
      v[j] = (q1[j] + q2[j] * ds) * rate;
    }
    played.times.push_back(at);
    played.segment.push_back(segment_of_piece_[piece]);
    played.interval.push_back(std::min(i, last - 1));
    if (i < last && s[i] == path.knots()[piece]) knot_times_[piece] = at;
  }
}

void Retimer::play_third() {
  double begin = 0;
  int64_t interval = 0;
  for (size_t i = 0; i < third.legs(); ++i) {
    play_leg(third.leg(i), begin, interval);
    begin += rounded(third.leg(i).times().back());
    interval += third.leg(i).base.intervals();
  }
}

// The points of a leg but for its end, which is the next one's begin, or the path's end.
void Retimer::play_leg(const ThirdOrder& leg, double begin, int64_t first_interval) {
  const BaseLaw& base = leg.base;
  const int64_t N = base.intervals();
  const std::vector<KnotPlace>& knots = leg.knots();
  const std::vector<double>& times = leg.times();
  const auto add = [&](int64_t k, double e, int64_t piece, double t) {
    double yuw[3], s[4];
    const double at = rounded(t);
    const bool at_end = k + 1 == N && e == 1;
    leg.rate_at(k, e, yuw);
    const double part = (k == 0 && e == 0) || at_end ? e : e + (at - t) * std::sqrt(yuw[0]) / base.h;
    leg.rate_at(k, part, yuw);
    base.evaluate(k, part, s);
    played.interval.push_back(first_interval + k);
    add_point(rounded(begin + at), piece, at_end ? base.end : s[0], s[1] * std::sqrt(yuw[0]), s[2] * yuw[0] + s[1] * yuw[1]);
  };
  auto next = knots.begin();
  const auto is_in = [&](int64_t k) { return next != knots.end() && next->interval == k; };
  int64_t piece = base.first_piece;
  if (base.begin == path.knots()[piece]) knot_times_[piece] = begin;
  double last_knot = -1;
  // Knots without any jump, up to a part of an interval: no points are played for them.
  const auto pass = [&](int64_t k, double until) {
    for (; is_in(k) && next->part <= until && !next->jumps; ++next) {
      piece = next->piece;
      knot_times_[piece] = rounded(begin + leg.time_at(k, next->part));
    }
  };
  // Between coarse nodes a quintic overshoots where the jerk jumps.
  const int halves = N >= kFine * (base.last_piece + 1 - piece) ? 1 : 2;
  for (int64_t k = 0; k < N; ++k) {
    const double gap = std::min(kLeastGap, kLeastPart * (times[k + 1] - times[k]));
    for (int half = 0; half < halves; ++half) {
      const double e = 0.5 * half, until = half + 1 == halves ? 1.0 : 0.5, t = leg.time_at(k, e);
      pass(k, e);
      const bool is_knot = is_in(k) && next->part == e, is_begin = k == 0 && half == 0;
      const bool knot_ahead = !is_knot && (is_in(k) || (is_in(k + 1) && next->part == 0)) &&
                              next->jumps && leg.time_at(next->interval, next->part) - t < gap;
      if (is_knot) {
        piece = next->piece;
        last_knot = t;
      }
      if (is_knot || is_begin || (!knot_ahead && t - last_knot >= gap)) add(k, e, piece, t);
      if (is_knot) knot_times_[next++->piece] = played.times.back();
      for (pass(k, until); is_in(k) && next->part < until; ++next, pass(k, until)) {
        const double time = leg.time_at(k, next->part);
        piece = next->piece;
        if (time - last_knot >= gap / 4 && times.back() - time > gap / 4 && time > gap / 4) {
          add(k, next->part, piece, time);
          last_knot = time;
        }
        knot_times_[piece] = rounded(begin + time);
      }
    }
  }
  if (base.last_piece + 1 == path.pieces() && base.end == path.end()) add(N - 1, 1, base.last_piece, times.back());
}

void Retimer::certify(const Limits& limits) {
  std::fill(played.segment_ratio.begin(), played.segment_ratio.end(), 0.0);
  const int64_t dof = path.dof(), points = static_cast<int64_t>(played.times.size());
  interval_ratio_.assign(played.interval.empty() ? 0 : 3 * (played.interval.back() + 1), 0.0);
  // Some more numbers than there are, for the vectors.
  for (auto* each : {&played.position, &played.velocity, &played.acceleration}) each->reserve(each->size() + kLanes);
  const bool quintic = !played.acceleration.empty(), by_interval = !played.interval.empty();
  const RowLoops& loops = row_loops();
  Piece piece{.dof = dof};
  for (int kind = 0; kind < kKinds; ++kind) piece.inverse[kind] = limits.inverse[kind].data();
  // Excess over the known extremes, for one joint.
  const auto exact = [&](int64_t j, double* ratio) {
    double c[kDegree + 1], low[kOrders] = {-INFINITY}, high[kOrders] = {INFINITY};
    for (int k = 0; k < 3; ++k) {
      high[k + 1] = piece.known[k] / piece.inverse[k == 0 ? kVelocity : k + 1][j];
      low[k + 1] = k == 1 ? piece.known[k] / piece.inverse[kLowest][j] : -high[k + 1];
    }
    const double *const p = piece.p + j, *const v = piece.v + j, *const a = piece.a + j;
    piece_between(piece.span, 1, p, p + dof, v, v + dof, a, a + dof, c);
    widen_by_piece(c, piece.span, low, high);
    ratio[0] = std::max(high[1], -low[1]) * piece.inverse[kVelocity][j];
    ratio[1] = std::max(high[2] * piece.inverse[kHighest][j], low[2] * piece.inverse[kLowest][j]);
    ratio[2] = std::max(high[3], -low[3]) * piece.inverse[kJerk][j];
  };
  for (int64_t p = 0; p + 1 < points; ++p) {
    const int64_t segment = 3 * played.segment[p];
    double* const most = &played.segment_ratio[segment];
    piece.span = played.times[p + 1] - played.times[p];
    piece.p = &played.position[p * dof];
    piece.v = &played.velocity[p * dof];
    piece.a = quintic ? &played.acceleration[p * dof] : nullptr;
    // Extremes that are not greater than the segment's are of no interest. Greater than 0: limits may be infinite.
    for (int k = 0; k < 3; ++k) piece.known[k] = std::clamp(most[k], 1e-300, 1.0);
    for (int64_t first = 0; first < dof; first += kLanes) {
      double of_cubics[3 * kLanes];
      for (uint32_t left = loops.may_exceed(piece, first, of_cubics); left != 0; left &= left - 1) {
        const int64_t lane = std::countr_zero(left), j = first + lane;
        double ratio[3] = {of_cubics[lane], of_cubics[kLanes + lane], of_cubics[2 * kLanes + lane]};
        if (quintic) exact(j, ratio);
        for (int k = 0; k < 3; ++k) {
          if (by_interval) {
            double& of = interval_ratio_[3 * played.interval[p] + k];
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
  played.set_ratio();
}

// Returns whether a plan keeps its limits; then it is played unchanged.
bool Retimer::plan_keeps(const PathRows& rows, const Limits& limits) {
  for (int64_t i = 0; i < rows.rows; ++i) {
    const double t = rows.knots[i];
    add_point(t - rows.knots[0], std::min(i, path.pieces() - 1), t, 1, 0);
    played.row_times[i] = played.times.back();
  }
  // The rows as they were given, to the last bit.
  const int64_t size = rows.rows * rows.dof;
  std::copy_n(rows.position, size, played.position.begin());
  if (rows.velocity != nullptr) std::copy_n(rows.velocity, size, played.velocity.begin());
  if (rows.acceleration != nullptr) std::copy_n(rows.acceleration, size, played.acceleration.begin());
  if (rows.velocity != nullptr && rows.acceleration == nullptr) played.acceleration.clear();  // cubics, unchanged
  certify(limits);
  duration = played.times.back();
  return played.worst() <= 1 + 1e-9;
}

}  // namespace traj_integrator::retiming
