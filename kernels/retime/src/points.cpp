#include "points.h"

#include <algorithm>

namespace traj_integrator::retiming {
namespace {

// Knots that are closer to a node than this part of an interval are taken for it.
constexpr double kAtNode = 1e-9;

}  // namespace

void Points::clear() {
  count = padded = 0;
  interval.clear();
  part.clear();
  piece.clear();
}

void Points::add(int64_t k, double e, int64_t piece_of) {
  interval.push_back(static_cast<int32_t>(k));
  part.push_back(e);
  piece.push_back(piece_of);
}

void Points::add_everywhere(int64_t intervals, int64_t parts, bool with_end, const std::vector<KnotPlace>& knots) {
  block_length = intervals;
  blocks = parts + with_end;
  for (int64_t i = 0; i < blocks; ++i) {
    const double e = static_cast<double>(i) / static_cast<double>(parts);
    size_t next = 0;
    int64_t piece_of = 0;
    for (int64_t k = 0; k < intervals; ++k) {
      while (next < knots.size() && (knots[next].interval < k || (knots[next].interval == k && knots[next].part <= e))) {
        piece_of = knots[next++].piece;
      }
      add(k, e, piece_of);
    }
  }
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
  const int64_t dof = path.dof();
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
    path.evaluate(piece[p], s[0], nullptr, q1.data() + p, q2.data() + p, q3.data() + p, padded);
    const double s11 = s[1] * s[1];
    for (int64_t j = 0; j < dof; ++j) {
      const size_t k = static_cast<size_t>(j * padded) + p;
      const double d1 = q1[k], d2 = q2[k], d3 = q3[k];
      q1[k] = d1 * s[1];
      q2[k] = d2 * s11 + d1 * s[2];
      q3[k] = d3 * s11 * s[1] + 3 * d2 * s[1] * s[2] + d1 * s[3];
    }
  }
}

void Points::spread(const std::vector<double>& b, double* y, double* u, double* w) const {
  const size_t n = static_cast<size_t>(padded);
  size_t p = 0;
  for (int64_t block = 0; block < blocks; ++block) {  // the same weights at all of them, one interval after the other
    const double y0 = weight[0][p], y1 = weight[1][p], y2 = weight[2][p];
    const double u0 = weight[3][p], u1 = weight[4][p], u2 = weight[5][p];
    for (size_t k = 0; k < static_cast<size_t>(block_length); ++k, ++p) {
      y[p] = y0 * b[k] + y1 * b[k + 1] + y2 * b[k + 2];
      u[p] = u0 * b[k] + u1 * b[k + 1] + u2 * b[k + 2];
      w[p] = curvature[0] * (b[k] + b[k + 2]) + curvature[1] * b[k + 1];
    }
  }
  for (; p < n; ++p) {
    const double* const k = b.data() + interval[p];
    y[p] = weight[0][p] * k[0] + weight[1][p] * k[1] + weight[2][p] * k[2];
    u[p] = weight[3][p] * k[0] + weight[4][p] * k[1] + weight[5][p] * k[2];
    w[p] = curvature[0] * (k[0] + k[2]) + curvature[1] * k[1];
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
