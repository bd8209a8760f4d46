// B-splines between two states: what the loops need to know of one call.
#pragma once

#include <cstdint>

namespace traj_integrator {

constexpr int kSplineLanes = 8;   // joints that are worked on together

// Tables are those of `splines/weights.py`.
struct SplineShape {
  int degree = 0;    // 0: no spline
  int64_t steps;     // rows for each segment
  int64_t points;    // control points given
  int64_t used;      // of them, that count
  int64_t head;      // extended control points that carry the start
  int64_t tail;      // that carry the goal, or repeat the last one
  bool has_goal;
  int64_t dof;
  const double* weights;        // [steps + 1, 4 degree - 2]: K + 1 for position, K for velocity, ...
  const double* state_weights;  // [head, 4]

  int64_t extended() const { return head + used + tail; }
  int64_t segments() const { return extended() - degree; }
  int64_t rows() const { return segments() * steps + 1; }
};

// Doubles of scratch memory that one thread needs.
inline int64_t spline_scratch(const SplineShape& shape) {
  return 2 * shape.extended() * kSplineLanes + (shape.steps + 1) * (4 * shape.degree - 2);
}

}  // namespace traj_integrator
