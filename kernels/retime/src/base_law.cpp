#include "base_law.h"

#include <algorithm>
#include <cmath>

namespace traj_integrator::retiming {
namespace {

// Knots that are closer to a node than this part of an interval are taken for it.
constexpr double kAtNode = 1e-9;
// Rows with more slack than this part of their limit are left out once it is known where the solution is about.
constexpr double kFar = 0.5;
constexpr int64_t kPair = 4 * kLanes;
constexpr uintptr_t kCacheLine = 64;

// The integral of the second order's s(t) from 0, continued before its begin and behind its end: at rest it stays, else s is
// mirrored in its end points, so that speeds continue.
class Integral {
 public:
  Integral(const SecondOrder& motion, bool rests_before, bool rests_after, double slower)
      : motion_(motion), before_(rests_before), after_(rests_after), slower_(slower) {
    const std::vector<double>&s = motion.s(), &t = motion.times();
    first_ = s.front();
    total_.resize(s.size());
    for (size_t i = 0; i + 1 < s.size(); ++i) total_[i + 1] = total_[i] + within(i, t[i + 1] - t[i]);
  }

  double duration() const { return motion_.times().back() * slower_; }

  double operator()(double time) const {
    const double T = motion_.times().back(), end = motion_.s().back() - first_, t = time / slower_;
    if (t < 0) return slower_ * (before_ ? 0 : inside(std::min(-t, T)));
    if (t <= T) return slower_ * inside(t);
    const double over = t - T;
    return slower_ * (total_.back() + (after_ ? end * over : 2 * end * over - (total_.back() - inside(std::max(0.0, T - over)))));
  }

 private:
  double within(size_t i, double tau) const {
    const std::vector<double>&s = motion_.s(), &x = motion_.x();
    const double u = (x[i + 1] - x[i]) / (2 * (s[i + 1] - s[i]));
    return tau * ((s[i] - first_) + tau * (std::sqrt(x[i]) / 2 + tau * u / 6));
  }
  double inside(double t) const {
    const std::vector<double>& times = motion_.times();
    const size_t i = static_cast<size_t>(std::upper_bound(times.begin() + 1, times.end() - 1, t) - times.begin()) - 1;
    return total_[i] + within(i, t - times[i]);
  }

  const SecondOrder& motion_;
  const bool before_, after_;
  const double slower_;
  double first_ = 0;
  std::vector<double> total_;
};

double median(std::vector<double>& values) {
  const auto middle = values.begin() + static_cast<std::ptrdiff_t>(values.size() / 2);
  std::nth_element(values.begin(), middle, values.end());
  return *middle;
}

}  // namespace

void BaseLaw::evaluate(int64_t interval, double e, double* s) const {
  const double* const k = c.data() + interval;
  const double f = 1 - e, d0 = k[1] - k[0], d1 = k[2] - k[1], d2 = k[3] - k[2];
  // From the nearest coefficient: small differences keep their digits.
  s[0] = k[1] + (e * e * e * d2 + (1 + 3 * e + 3 * e * e - 2 * e * e * e) * d1 - f * f * f * d0) / 6;
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

void BaseLaw::identity(double begin, double end, int64_t intervals) {
  c.resize(static_cast<size_t>(intervals) + 3);
  h = (end - begin) / static_cast<double>(intervals);
  for (int64_t i = 0; i < intervals + 3; ++i) {
    c[static_cast<size_t>(i)] = begin + (end - begin) * (static_cast<double>(i - 1) / static_cast<double>(intervals));
  }
}

void BaseLaw::smooth(const SecondOrder& motion, const Limits& limits, const Ends& ends, int64_t dof, int64_t intervals,
                     double width) {
  std::vector<double> builds_up;
  for (int64_t j = 0; j < dof; ++j) {
    const double time = std::min(limits.of[kHighest][j], -limits.of[kLowest][j]) / limits.of[kJerk][j];
    if (std::isfinite(time) && time > 0) builds_up.push_back(time);
  }
  const bool rests_before = ends.rests_before(), rests_after = ends.rests_after();
  double slower = 1;
  const double shortest = motion.times().back();
  double W = width * (builds_up.empty() ? shortest / 8 : median(builds_up));
  if (!rests_before || !rests_after) {
    W = std::min(W, 0.8 * shortest);
  } else if (W > shortest) {
    slower = std::cbrt(W / shortest);  // k: x is divided by k^2, W by k^2
    W /= slower * slower;
  }
  const Integral integral(motion, rests_before, rests_after, slower);
  const int64_t before = rests_before ? 2 : 1, after = rests_after ? 2 : 1;
  const double from = rests_before ? -W / 2 : 0, to = integral.duration() + (rests_after ? W / 2 : 0);
  h = (to - from) / static_cast<double>(intervals + 2 - before - after);
  c.resize(static_cast<size_t>(intervals) + 3);
  const double begin = motion.s().front(), end = motion.s().back();
  for (int64_t i = 0; i < intervals + 3; ++i) {
    const double t = from + static_cast<double>(i - before) * h;
    c[static_cast<size_t>(i)] = begin + (integral(t + W / 2) - integral(t - W / 2)) / W;
  }
  const size_t last = c.size();
  if (rests_before) c[0] = c[1] = c[2] = begin;
  if (rests_after) c[last - 1] = c[last - 2] = c[last - 3] = end;
}

void Points::form(const Path& path, const BaseLaw& base, const Limits& limits, const std::vector<KnotPlace>& knots, int64_t parts,
                  bool for_jerk, bool overlapping) {
  of_jerk = for_jerk;
  dof = path.dof();
  intervals_.clear();
  part.clear();
  piece.clear();
  add_everywhere(base.intervals(), parts, for_jerk, overlapping, knots);
  if (!for_jerk) add(base.intervals() - 1, 1, path.pieces() - 1);
  for (const KnotPlace& knot : knots) {
    if (!for_jerk || knot.part == 0) continue;  // a node: it has both sides
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

void Points::add_everywhere(int64_t intervals, int64_t parts, bool with_end, bool overlapping,
                            const std::vector<KnotPlace>& knots) {
  const int64_t each = parts + with_end;
  const auto part_of = [&](int64_t i) { return static_cast<double>(i) / static_cast<double>(parts); };
  std::vector<int64_t> pieces;
  size_t next = 0;
  for (int64_t k = 0; k < intervals; ++k) {
    for (int64_t i = 0; i < each; ++i) {
      while (next < knots.size() && (knots[next].interval < k || (knots[next].interval == k && knots[next].part <= part_of(i)))) ++next;
      pieces.push_back(next == 0 ? 0 : knots[next - 1].piece);
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

void Points::choose_rows(bool all) {
  firsts_.assign(1, 0);
  joints_.clear();
  for (int64_t p = 0; p < padded; p += kLanes) {
    for (int64_t j = 0; j < dof; ++j) {
      double *const upper_pair = pairs + 8 * at(p, j), *const lower_pair = upper_pair + kPair;
      bool near = all;
      for (int64_t i = 0; i < kLanes && !near; ++i) near = std::min(upper_pair[i], lower_pair[i]) < kFar * r[p + i];
      if (near) joints_.push_back(static_cast<int32_t>(j));
      for (double* const pair : {upper_pair, lower_pair}) {
        if (!near) std::fill(pair + kLanes, pair + 2 * kLanes, 0.0);
      }
    }
    firsts_.push_back(static_cast<int32_t>(joints_.size()));
  }
  first = firsts_.data();
  joint = joints_.data();
}

std::vector<KnotPlace> places_of_knots(const Path& path, const BaseLaw& base) {
  std::vector<KnotPlace> places;
  const int64_t intervals = base.intervals();
  int64_t k = 0;
  double s[4];
  for (int64_t m = 1; m < path.pieces(); ++m) {
    const double knot = path.knots()[m];
    for (;; ++k) {
      base.evaluate(k, 1, s);
      if (s[0] > knot || k + 1 == intervals) break;
    }
    KnotPlace place{k, base.part_at(k, knot), m};
    if (place.part > 1 - kAtNode && k + 1 < intervals) place = {k + 1, 0, m};
    if (place.part < kAtNode) place.part = 0;
    places.push_back(place);
  }
  return places;
}

}  // namespace traj_integrator::retiming
