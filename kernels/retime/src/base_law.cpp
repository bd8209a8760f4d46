#include "base_law.h"

#include <algorithm>
#include <cmath>

namespace traj_integrator::retiming {
namespace {

// Knots that are closer to a node than this part of an interval are taken for it.
constexpr double kAtNode = 1e-9;
// Pieces of the path that are shorter than this part of an interval.
constexpr double kShortPiece = 0.02;
// Rows with more slack than this part of their limit are left out once it is known where the solution is about.
constexpr double kFar = 0.5;
constexpr int64_t kPair = 4 * kLanes;
constexpr uintptr_t kCacheLine = 64;

// The integral of the second order's s(t) from a point of its grid to another, continued before it and behind: at rest it
// stays, else s is mirrored in its end points, so that speeds continue. Relative to the first point.
class Integral {
 public:
  Integral(const SecondOrder& motion, int64_t first, int64_t last, bool rests_before, bool rests_after, double slower)
      : s_(motion.s().data() + first), x_(motion.x().data() + first), t_(motion.times().data() + first), last_(last - first),
        before_(rests_before), after_(rests_after), slower_(slower), total_(last_ + 1) {
    for (int64_t i = 0; i < last_; ++i) total_[i + 1] = total_[i] + within(i, t_[i + 1] - t_[i]);
  }

  double operator()(double time) const {
    const double T = t_[last_] - t_[0], end = s_[last_] - s_[0], t = time / slower_;
    if (t < 0) return slower_ * (before_ ? 0 : inside(std::min(-t, T)));
    if (t <= T) return slower_ * inside(t);
    const double over = t - T;
    return slower_ * (total_.back() + (after_ ? end * over : 2 * end * over - (total_.back() - inside(std::max(0.0, T - over)))));
  }

 private:
  double within(int64_t i, double tau) const {
    const double u = (x_[i + 1] - x_[i]) / (2 * (s_[i + 1] - s_[i]));
    return tau * ((s_[i] - s_[0]) + tau * (std::sqrt(x_[i]) / 2 + tau * u / 6));
  }
  double inside(double time) const {
    const double t = t_[0] + time;
    const int64_t i = std::upper_bound(t_ + 1, t_ + last_, t) - t_ - 1;
    return total_[i] + within(i, t - t_[i]);
  }

  const double *const s_, *const x_, *const t_;
  const int64_t last_;
  const bool before_, after_;
  const double slower_;
  std::vector<double> total_;
};

}  // namespace

void BaseLaw::evaluate(int64_t interval, double e, double* s) const {
  const double* const k = c.data() + interval;
  const double f = 1 - e, d0 = k[1] - k[0], d1 = k[2] - k[1], d2 = k[3] - k[2];
  // From the nearest coefficient: small differences keep their digits.
  s[0] = begin + k[1] + (e * e * e * d2 + (1 + 3 * e + 3 * e * e - 2 * e * e * e) * d1 - f * f * f * d0) / 6;
  s[1] = (f * f / 2 * d0 + (0.5 + e - e * e) * d1 + e * e / 2 * d2) / h;
  s[2] = (f * (d1 - d0) + e * (d2 - d1)) / (h * h);
  s[3] = (d2 - 2 * d1 + d0) / (h * h * h);
}

double BaseLaw::part_at(int64_t interval, double s) const {
  double from = 0, to = 1, value[4];
  for (int step = 0; step < 60; ++step) {
    const double e = 0.5 * (from + to);
    evaluate(interval, e, value);
    (value[0] < s ? from : to) = e;
    if (to - from < 1e-15) break;
  }
  return 0.5 * (from + to);
}

void BaseLaw::identity(const Path& path, int64_t intervals) {
  begin = path.begin(), end = path.end();
  first_piece = 0, last_piece = path.pieces() - 1;
  c.resize(static_cast<size_t>(intervals) + 3);
  h = (end - begin) / static_cast<double>(intervals);
  for (int64_t i = 0; i < intervals + 3; ++i) {
    c[static_cast<size_t>(i)] = (end - begin) * (static_cast<double>(i - 1) / static_cast<double>(intervals));
  }
}

void BaseLaw::smooth(const SecondOrder& motion, int64_t first, int64_t last, const Ends& ends, int64_t intervals, double width) {
  begin = motion.s()[first], end = motion.s()[last];
  first_piece = motion.piece(first), last_piece = motion.piece(last - 1);
  const bool rests_before = ends.rests_before(), rests_after = ends.rests_after();
  const double shortest = motion.times()[last] - motion.times()[first];
  double slower = 1, W = width;
  if (!rests_before || !rests_after) {
    W = std::min(W, 0.8 * shortest);
  } else if (W > shortest) {
    slower = std::cbrt(W / shortest);  // k: x is divided by k^2, W by k^2
    W /= slower * slower;
  }
  const Integral integral(motion, first, last, rests_before, rests_after, slower);
  const int64_t before = rests_before ? 2 : 1, after = rests_after ? 2 : 1;
  const double from = rests_before ? -W / 2 : 0, to = shortest * slower + (rests_after ? W / 2 : 0);
  h = (to - from) / static_cast<double>(intervals + 2 - before - after);
  c.resize(static_cast<size_t>(intervals) + 3);
  for (int64_t i = 0; i < intervals + 3; ++i) {
    const double t = from + static_cast<double>(i - before) * h;
    c[static_cast<size_t>(i)] = (integral(t + W / 2) - integral(t - W / 2)) / W;
  }
  if (rests_before) std::fill_n(c.begin(), 3, 0.0);
  if (rests_after) std::fill_n(c.rbegin(), 3, end - begin);
}

void Points::form(const Path& path, const BaseLaw& base, const Limits& limits, const std::vector<KnotPlace>& knots, int64_t parts,
                  bool for_jerk, bool overlapping) {
  of_jerk = for_jerk;
  dof = path.dof();
  intervals_.clear();
  part.clear();
  piece.clear();
  add_everywhere(base, parts, for_jerk, overlapping, knots);
  if (!for_jerk) add(base.intervals() - 1, 1, base.last_piece);
  for (const KnotPlace& knot : knots) {
    if (!for_jerk || knot.part == 0 || !knot.jumps) continue;  // a node: it has both sides
    add(knot.interval, knot.part, knot.piece - 1);
    add(knot.interval, knot.part, knot.piece);
  }
  count = static_cast<int64_t>(part.size());
  padded = whole_lanes(count);
  blocks = padded / kLanes;
  for (int64_t p = count; p < padded; ++p) add(intervals_.back(), part.back(), piece.back());
  take_memory(!overlapping);
  evaluate(path, base, limits);
}

void Points::add(int64_t k, double e, int64_t piece_of) {
  intervals_.push_back(static_cast<int32_t>(k));
  part.push_back(e);
  piece.push_back(piece_of);
}

void Points::add_everywhere(const BaseLaw& base, int64_t parts, bool with_end, bool overlapping,
                            const std::vector<KnotPlace>& knots) {
  const int64_t intervals = base.intervals(), each = parts + with_end;
  const auto part_of = [&](int64_t i) { return static_cast<double>(i) / static_cast<double>(parts); };
  std::vector<int64_t> pieces;
  size_t next = 0;
  for (int64_t k = 0; k < intervals; ++k) {
    for (int64_t i = 0; i < each; ++i) {
      while (next < knots.size() && (knots[next].interval < k || (knots[next].interval == k && knots[next].part <= part_of(i)))) ++next;
      pieces.push_back(next == 0 ? base.first_piece : knots[next - 1].piece);
    }
  }
  const auto add_from = [&](int64_t first, int64_t width) {
    for (int64_t i = 0; i < each; ++i) {
      for (int64_t k = first; k < first + width; ++k) add(k, part_of(i), pieces[k * each + i]);
    }
  };
  int64_t done = 0;
  for (; done + kLanes <= intervals; done += kLanes) add_from(done, kLanes);
  if (overlapping && done > 0 && done < intervals) add_from(intervals - kLanes, kLanes), done = intervals;
  regular = static_cast<int64_t>(part.size()) / kLanes;
  add_from(done, intervals - done);
}

// One after the other, in whole cache lines.
void Points::take_memory(bool with_rows) {
  interval = intervals_.data();
  double** const of_points[] = {&weight[0], &weight[1], &weight[2], &weight[3],   &weight[4],     &weight[5],
                                &scale,     &bound,     &r,         &slope_r,     &velocity_bound, &objective};
  const int64_t joints = padded * dof, of_pairs = with_rows ? 8 * joints : 0, of_bounds = with_rows ? 4 * padded : 0;
  memory_.resize(padded * std::size(of_points) + 3 * joints + of_pairs + of_bounds + kLanes);
  double* next = reinterpret_cast<double*>((reinterpret_cast<uintptr_t>(memory_.data()) + kCacheLine - 1) / kCacheLine * kCacheLine);
  const auto take = [&next](int64_t size) {
    next += size;
    return next - size;
  };
  for (double** const each : of_points) *each = take(padded);
  for (double** const each : {&q1, &q2, &q3}) *each = take(joints);
  pairs = take(of_pairs);
  bound_pairs = take(of_bounds);
}

void Points::evaluate(const Path& path, const BaseLaw& base, const Limits& limits) {
  const double h = base.h;
  curvature[0] = curvature[2] = 1 / (2 * h * h);
  curvature[1] = -1 / (h * h);
  for (int64_t p = 0; p < padded; ++p) {
    const double e = part[p], f = 1 - e;
    const double weights[] = {f * f / 2, 0.5 + e - e * e, e * e / 2, -f / (2 * h), (1 - 2 * e) / (2 * h), e / (2 * h)};
    for (int i = 0; i < 6; ++i) weight[i][p] = weights[i];
    double s[4], most = 0;
    base.evaluate(interval[p], e, s);
    const int64_t first = at(p, 0);
    path.evaluate(piece[p], s[0], nullptr, q1 + first, q2 + first, q3 + first, kLanes);
    if (of_jerk) mean_within_interval(path, base, p, s[0], q3 + first);
    const double s11 = s[1] * s[1];
    for (int64_t j = 0; j < dof; ++j) {
      const int64_t k = at(p, j);
      const double d1 = q1[k], d2 = q2[k], d3 = q3[k];
      q1[k] = d1 * s[1];
      q2[k] = d2 * s11 + d1 * s[2];
      q3[k] = d3 * s11 * s[1] + 3 * d2 * s[1] * s[2] + d1 * s[3];
      most = std::max(most, std::abs(q1[k]) * limits.inverse[kVelocity][j]);
    }
    velocity_bound[p] = most * most;
  }
}

// The played motion changes the acceleration over whole intervals, even across a much shorter piece of the path: there
// the third derivative is its mean around the point.
void Points::mean_within_interval(const Path& path, const BaseLaw& base, int64_t p, double s, double* third) {
  const std::vector<double>& knots = path.knots();
  const double* const c = base.c.data() + interval[p];
  const double span = std::min((c[3] + c[2] - c[1] - c[0]) / 2, path.end() - path.begin());
  if (knots[piece[p] + 1] - knots[piece[p]] > kShortPiece * span) return;
  const double from = std::clamp(s - span / 2, path.begin(), path.end() - span), to = from + span;
  int64_t before = piece[p], after = piece[p];
  while (before > 0 && knots[before] > from) --before;
  while (after + 1 < path.pieces() && knots[after + 1] < to) ++after;
  std::vector<double> low(dof), high(dof);
  path.evaluate(before, from, nullptr, nullptr, low.data(), nullptr);
  path.evaluate(after, to, nullptr, nullptr, high.data(), nullptr);
  for (int64_t j = 0; j < dof; ++j) third[j * kLanes] = (high[j] - low[j]) / span;
  piece[p] = before;  // of which the gradient is
}

void Points::fill(double floor, double barrier) {
  for (double* z = pairs; z < bound_pairs + blocks * kPair; z += kPair) {
    double* const l = z + kLanes;
    if (barrier == 0) {
      std::fill(z, l, floor);
      std::fill(l, z + kPair, 0.0);
    } else {
      for (int64_t i = 0; i < kLanes; ++i) l[i] = barrier / z[i];
    }
  }
}

void Points::form_all(double floor) {
  firsts_.resize(blocks + 1);
  joints_.resize(blocks * dof);
  for (int64_t i = 0; i <= blocks; ++i) firsts_[i] = static_cast<int32_t>(i * dof);
  for (int64_t i = 0; i < blocks * dof; ++i) joints_[i] = static_cast<int32_t>(i % dof);
  first = firsts_.data();
  joint = joints_.data();
  for (double* z = pairs; z < bound_pairs; z += kPair) {
    if (z[kLanes] == 0) std::fill_n(z, kLanes, floor);
  }
}

void Points::leave_out(double barrier) {
  joints_.clear();
  for (int64_t p = 0; p < padded; p += kLanes) {
    for (int64_t j = 0; j < dof; ++j) {
      double* const upper_pair = pairs + 8 * at(p, j);
      bool near = false;
      for (int64_t i = 0; i < kLanes && !near; ++i) near = std::min(upper_pair[i], upper_pair[kPair + i]) < kFar * r[p + i];
      if (near) joints_.push_back(static_cast<int32_t>(j));
      for (double* const z : {upper_pair, upper_pair + kPair}) {
        double* const l = z + kLanes;
        for (int64_t i = 0; i < kLanes; ++i) l[i] = !near ? 0 : l[i] > 0 ? l[i] : barrier / z[i];
      }
    }
    firsts_[p / kLanes + 1] = static_cast<int32_t>(joints_.size());
  }
}

std::vector<KnotPlace> places_of_knots(const Path& path, const BaseLaw& base) {
  std::vector<KnotPlace> places;
  const int64_t intervals = base.intervals();
  int64_t k = 0;
  double s[4];
  for (int64_t m = base.first_piece + 1; m <= base.last_piece; ++m) {
    const double knot = path.knots()[m];
    for (;; ++k) {
      base.evaluate(k, 1, s);
      if (s[0] > knot || k + 1 == intervals) break;
    }
    KnotPlace place{k, base.part_at(k, knot), m, !path.is_smooth(m)};
    if (place.part > 1 - kAtNode && k + 1 < intervals) place = {k + 1, 0, m, place.jumps};
    if (place.part < kAtNode) place.part = 0;
    places.push_back(place);
  }
  return places;
}

}  // namespace traj_integrator::retiming
