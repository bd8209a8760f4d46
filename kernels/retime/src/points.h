// Points along the base law at which the rows of the third order are formed, with their place in the unknowns.
#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

#include "base_law.h"
#include "path.h"
#include "rows.h"

namespace traj_integrator::retiming {

// Where knots of the path lie.
struct KnotPlace {
  int64_t interval;
  double part;
  int64_t piece;  // behind the knot
};

// y = (d tau / dt)^2 is a uniform quadratic B-spline with coefficients b; u = y' / 2, w = y'' / 2.
struct Points {
  int64_t count = 0, padded = 0, dof = 0;
  int64_t regular = 0;               // blocks of consecutive intervals at the same e, to begin with
  std::vector<int32_t> interval;     // [padded]
  std::vector<double> part;          // e within the interval
  Array weight[6];                   // of b_k, b_(k+1), b_(k+2): three for y, three for u
  double curvature[3] = {0, 0, 0};   // of w
  Array q1, q2, q3;                  // [padded / kLanes, D, kLanes]: derivatives of the path by tau
  std::vector<int64_t> piece;

  void clear();
  void add(int64_t interval, double e, int64_t piece);
  // At e = 0, 1 / parts and so on in all intervals; `overlapping`: regular blocks for the last ones, too, if there are enough.
  void add_everywhere(int64_t intervals, int64_t parts, bool with_end, bool overlapping, const std::vector<KnotPlace>& knots);
  // Both sides of every knot within an interval.
  void add_knots(const std::vector<KnotPlace>& knots);
  // Pads, and evaluates the path.
  void finish(const Path& path, const BaseLaw& base);
  // Where a joint's derivatives at a point are.
  size_t at(int64_t point, int64_t joint) const {
    return static_cast<size_t>((point / kLanes * dof + joint) * kLanes + point % kLanes);
  }
};

std::vector<KnotPlace> places_of_knots(const Path& path, const BaseLaw& base);

}  // namespace traj_integrator::retiming
