// What is played of a trajectory: points, and the certificate of the motion between them.
#include <algorithm>
#include <bit>
#include <cmath>

#include "certificate.h"
#include "rows.h"
#include "trajectory.h"

namespace traj_integrator::retiming {
namespace {

// Nodes closer to a knot of the path are left out, s: rounding would give large jerks between them.
constexpr double kLeastGap = 2e-4;
// A third of the shortest interval, where intervals are shorter than that.
constexpr double kLeastPart = 0.3;
constexpr double kNanosecond = 1e-9;
// Intervals in each piece of the path from which on their middles are not played.
constexpr int64_t kFine = 30;

}  // namespace

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
  played.clear();
  row_times_of_knots_.assign(path.knots().size(), 0.0);
  const auto rounded = [](double time) { return std::round(time / kNanosecond) * kNanosecond; };
  if (options.order == 2) {
    const std::vector<double>&s = second.s(), &x = second.x();
    const int64_t dof = path.dof(), last = second.intervals();
    played.position.resize(s.size() * static_cast<size_t>(dof));
    played.velocity.resize(played.position.size());
    for (int64_t i = 0; i <= last; ++i) {
      const size_t at = static_cast<size_t>(i);
      const int64_t piece = second.piece(std::min(i, last - 1));
      // The first-order difference of a rounded time.
      const double t = second.times()[at], tick = rounded(t) - t, speed = std::sqrt(x[at]);
      const double u = i < last ? (x[at + 1] - x[at]) / (2 * (s[at + 1] - s[at])) : 0;
      const double ds = std::clamp(s[at] + tick * speed, path.begin(), path.end()) - s[at], rate = speed + (speed > 0 ? tick * u : 0);
      const double *const q = second.position(i), *const q1 = second.derivative(i, 1), *const q2 = second.derivative(i, 2);
      double *const p = played.position.data() + i * dof, *const v = played.velocity.data() + i * dof;
      for (int64_t j = 0; j < dof; ++j) {
        p[j] = q[j] + q1[j] * ds;
        v[j] = (q1[j] + q2[j] * ds) * rate;
      }
      played.times.push_back(rounded(t));
      played.segment.push_back(segment_of_piece_[static_cast<size_t>(piece)]);
      if (i < last && s[at] == path.knots()[static_cast<size_t>(piece)]) row_times_of_knots_[static_cast<size_t>(piece)] = played.times.back();
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
  // Between coarse nodes a quintic overshoots where the jerk jumps.
  const int halves = N >= kFine * path.pieces() ? 1 : 2;
  for (int64_t k = 0; k < N; ++k) {
    const double length = third.times()[static_cast<size_t>(k) + 1] - third.times()[static_cast<size_t>(k)];
    const double gap = std::min(kLeastGap, kLeastPart * length);
    for (int half = 0; half < halves; ++half) {
      const double e = 0.5 * half, until = half + 1 == halves ? 1.0 : 0.5, t = third.time_at(k, e);
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
