// The arguments of one call for the loops: raw pointers and strides, no framework.
//
// Everything is computed in double for every storage type: differences of single-precision positions lose no digit of theirs
// through three orders, running sums keep their digits over any horizon, and memory traffic, not arithmetic, limits the speed.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <numeric>
#include <type_traits>
#include <utility>

#if defined(__x86_64__)
#include <immintrin.h>
#endif

#include "control_map.h"

namespace traj_integrator {

constexpr int kOutputs = 4;     // position, velocity, acceleration, jerk
constexpr int kStartRows = 4;   // the same, at the start
constexpr int kEnds = 2 * kStartRows;  // at start and goal

// Step lengths, s. Both strides may be 0: one value for all trajectories, one for all steps.
struct StepLengths {
  const double* data;
  int64_t batch_stride;
  int64_t step_stride;
};

// The rows of start or goal, and the row that a trajectory takes: its own, a common one, or one named by an index.
struct PickedRows {
  int64_t count = 1;
  const void* index = nullptr;
  bool is_int64 = false;

  bool are_shared(int64_t batch) const { return index != nullptr || count != batch; }
  int64_t operator()(int64_t trajectory) const {
    if (index == nullptr) return count == 1 ? 0 : trajectory;
    return is_int64 ? static_cast<const int64_t*>(index)[trajectory] : static_cast<const int32_t*>(index)[trajectory];
  }
};

// A B-spline between two states. Tables are those of `splines/weights.py`.
struct SplineShape {
  int degree = 0;  // 0: no spline
  int64_t steps;   // rows for each segment
  int64_t used;    // control points that affect the rows
  int64_t head;    // extended control points that carry the start
  int64_t tail;    // extended control points that carry the goal, or repeat the last one
  bool has_goal;
  const double* weights;        // [steps + 1, 4 degree - 2]: K + 1 for position, K for velocity, ...
  const double* state_weights;  // [head, 4]

  int64_t extended() const { return head + used + tail; }
  int64_t segments() const { return extended() - degree; }
  int64_t rows() const { return segments() * steps + 1; }
};

// A map reads action and ends, and writes the outputs. Its vjp reads the gradients of the outputs, and writes those of
// action and ends; null pointers stand for gradients that are 0, or not wanted.
template <class Scalar>
struct Problem {
  ControlMap map;
  SplineShape spline;             // in place of the map, where it is one
  int64_t actions, dof;
  Scalar* action;                 // [B, Ha, D]
  Scalar* end[kEnds];             // start and goal, [rows, D] each; gradients [B, D]
  PickedRows picked[2];           // the rows of start and goal
  StepLengths dt;
  Scalar* output[kOutputs];       // [B, H, D]
  // Only for a vjp.
  bool truncate_terminal;         // of the central difference
  double* sum[kEnds];             // [B, D] in place of `end`: to be summed over a pool
  // The gradient of dt, [B, 1 or Ha] like dt, in place of others; and action, own ends and outputs of the map, in
  // double.
  double* by_dt;
  const Problem<double>* at;

  int64_t rows() const { return spline.degree != 0 ? spline.rows() : output_horizon(map, actions); }
  bool wants_start() const {
    for (int k = 0; k < kStartRows; ++k) {
      if (end[k] != nullptr || sum[k] != nullptr) return true;
    }
    return false;
  }
};

// With many joints, a block of rows is worked through, some joints at a time, before the next rows are read.
constexpr int64_t kBlockElements = 8192, kMostBlockRows = 128;
inline int64_t block_rows(int64_t dof) { return std::clamp<int64_t>(kBlockElements / std::max<int64_t>(1, dof), 1, kMostBlockRows); }

constexpr int64_t kMapDoubles = 16;  // what a map may hold between two blocks, for each joint
constexpr int kMostLanes = 8;        // joints that are worked on together
inline int64_t kept_maps(int64_t dof) { return kMapDoubles * (dof + kMostLanes); }

// Doubles of scratch memory that one thread needs.
template <class Scalar>
int64_t scratch_size(const Problem<Scalar>& problem) {
  const SplineShape& spline = problem.spline;
  const int64_t dof = problem.dof;
  if (spline.degree != 0) return 2 * spline.extended() * kMostLanes + (spline.steps + 1) * (4 * spline.degree - 2);
  return kOutputs * dof + kept_maps(dof) + problem.rows();
}

// The terms of a quadratic cost for one output; arrays of one trajectory, [H * D] each. Without any weight the output
// has no cost; without a target, the target is 0. Limit weight and both limits are given together, and limits may be
// infinite.
struct CostTerm {
  const double* weight;
  const double* target;
  const double* limit_weight;
  const double* lower;
  const double* upper;

  bool counts() const { return weight != nullptr || limit_weight != nullptr; }
};

}  // namespace traj_integrator
