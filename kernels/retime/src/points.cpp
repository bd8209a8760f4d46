#include "points.h"

#include <algorithm>

namespace traj_integrator::retiming {
namespace {

// Knots that are closer to a node than this part of an interval are taken for it.
constexpr double kAtNode = 1e-9;

}  // namespace

void Points::clear() {
  count = padded = regular = 0;
  interval.clear();
  part.clear();
  piece.clear();
}

void Points::add(int64_t k, double e, int64_t piece_of) {
  interval.push_back(static_cast<int32_t>(k));
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
      for (int64_t k = first; k < first + width; ++k) add(k, part_of(i), pieces[static_cast<size_t>(k * each + i)]);
    }
  };
  int64_t done = 0;
  for (; done + kLanes <= intervals; done += kLanes) add_from(done, kLanes);
  if (overlapping && done > 0 && done < intervals) add_from(intervals - kLanes, kLanes), done = intervals;
  regular = static_cast<int64_t>(interval.size()) / kLanes;
  add_from(done, intervals - done);
}

void Points::add_knots(const std::vector<KnotPlace>& knots) {
  for (const KnotPlace& knot : knots) {
    if (knot.part == 0) continue;  // a node: it has both sides
    add(knot.interval, knot.part, knot.piece - 1);
    add(knot.interval, knot.part, knot.piece);
  }
}

void Points::finish(const Path& path, const BaseLaw& base) {
  count = static_cast<int64_t>(interval.size());
  padded = (count + kLanes - 1) / kLanes * kLanes;
  while (static_cast<int64_t>(interval.size()) < padded) add(interval.back(), part.back(), piece.back());
  const size_t n = static_cast<size_t>(padded);
  dof = path.dof();
  for (auto& each : weight) each.resize(n);
  for (auto* q : {&q1, &q2, &q3}) q->resize(n * static_cast<size_t>(dof));
  const double h = base.h;
  curvature[0] = curvature[2] = 1 / (2 * h * h);
  curvature[1] = -1 / (h * h);
  for (size_t p = 0; p < n; ++p) {
    const double e = part[p], f = 1 - e;
    weight[0][p] = f * f / 2;
    weight[1][p] = 0.5 + e - e * e;
    weight[2][p] = e * e / 2;
    weight[3][p] = -f / (2 * h);
    weight[4][p] = (1 - 2 * e) / (2 * h);
    weight[5][p] = e / (2 * h);
    double s[4];
    base.evaluate(interval[p], e, s);
    const size_t first = at(static_cast<int64_t>(p), 0);
    path.evaluate(piece[p], s[0], nullptr, q1.data() + first, q2.data() + first, q3.data() + first, kLanes);
    const double s11 = s[1] * s[1];
    for (int64_t j = 0; j < dof; ++j) {
      const size_t k = at(static_cast<int64_t>(p), j);
      const double d1 = q1[k], d2 = q2[k], d3 = q3[k];
      q1[k] = d1 * s[1];
      q2[k] = d2 * s11 + d1 * s[2];
      q3[k] = d3 * s11 * s[1] + 3 * d2 * s[1] * s[2] + d1 * s[3];
    }
  }
}

std::vector<KnotPlace> places_of_knots(const Path& path, const BaseLaw& base) {
  std::vector<KnotPlace> places;
  const int64_t intervals = base.intervals();
  int64_t k = 0;
  double s[4];
  for (int64_t m = 1; m < path.pieces(); ++m) {
    const double knot = path.knots()[static_cast<size_t>(m)];
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
