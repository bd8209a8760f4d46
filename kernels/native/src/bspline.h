// B-splines between two states: what the loops need to know of one call.
#pragma once

#include <cstdint>

namespace traj_integrator {

constexpr int kSplineOrders = 4;  // position, velocity, acceleration, jerk
constexpr int kSplineLanes = 8;   // joints that are worked on together

// Rows of a state for each trajectory: its own, one for all, or those that an index names.
struct SplineRows {
  const void* index = nullptr;
  bool is_int64 = false;
  int64_t rows = 0;

  int64_t operator()(int64_t trajectory) const {
    if (index == nullptr) return rows == 1 ? 0 : trajectory;
    return is_int64 ? static_cast<const int64_t*>(index)[trajectory] : static_cast<const int32_t*>(index)[trajectory];
  }
};

// What is the same in both directions. Tables are those of `splines/weights.py`.
struct SplineShape {
  int degree;
  int64_t steps;     // rows for each segment
  int64_t points;    // control points given
  int64_t used;      // of them, that count
  int64_t head;      // extended control points that carry the start
  int64_t tail;      // that carry the goal, or repeat the last one
  bool has_goal;
  int64_t dof;
  const double* weights;        // [steps + 1, 4 degree - 2]: K + 1 for position, K for velocity, ...
  const double* state_weights;  // [head, 4]
  const double* dt;             // s
  int64_t dt_stride;            // 0: one for all trajectories

  int64_t extended() const { return head + used + tail; }
  int64_t segments() const { return extended() - degree; }
  int64_t rows() const { return segments() * steps + 1; }
};

template <class Scalar>
struct SplineForward {
  SplineShape shape;
  const Scalar* action;                       // [B, n, D]
  const Scalar* start[kSplineOrders];         // [rows, D] each; null means 0
  SplineRows start_rows;
  const Scalar* goal[kSplineOrders];
  SplineRows goal_rows;
  Scalar* output[kSplineOrders];              // [B, H, D]
};

template <class Scalar>
struct SplineVjp {
  SplineShape shape;
  const Scalar* gradient[kSplineOrders];      // [B, H, D] each; null means 0
  Scalar* action;                             // [B, n, D], or null where not wanted
  Scalar* start[kSplineOrders];               // [B, D] each, for rows that are no sums; or null
  Scalar* goal[kSplineOrders];
  double* start_sum[kSplineOrders];           // [B, D] each, to be summed; or null
  double* goal_sum[kSplineOrders];
  const SplineForward<Scalar>* at;            // where the gradient of dt is wanted: the arguments of the map
  double* dt;                                 // [B], with `at`
};

// Doubles of scratch memory that one thread needs.
inline int64_t spline_scratch(const SplineShape& shape) {
  return 2 * shape.extended() * kSplineLanes + (shape.steps + 1) * (4 * shape.degree - 2);
}

}  // namespace traj_integrator
