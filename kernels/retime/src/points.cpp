#include "points.h"

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

}  // namespace

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
