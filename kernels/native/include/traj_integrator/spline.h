// Differentiable B-splines for C++ programs that link libtorch and no Python.
//
//   using namespace traj_integrator;
//   Trajectory motion = spline(control_points, {position, velocity}, {goal}, 0.02);
//   motion.jerk.square().sum().backward();
//
// The same numbers as bspline_step of traj_integrator_ros.kernels (docs/bsplines.md). Differentiable in control points,
// start and goal rows to any order (reverse mode), forward mode in the same.
#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>

#include "traj_integrator/step.h"

namespace traj_integrator {

// How start and goal meet the control points.
enum class SplineLayout : int64_t {
  kTight,   // start exact in the first row, goal exact in the last, every control point counts
  kCurobo,  // as published: a first segment that cannot be steered, the goal a segment before the end
};

// Rows of a goal, like those of a start; an undefined position means none, and rest at the last control point.
using GoalState = StartState;

struct SplineOptions {
  int64_t degree = 3;  // 3, 4 or 5
  int64_t steps = 4;   // rows for each segment
  SplineLayout layout = SplineLayout::kTight;
  at::Tensor start_index = {};  // [B] int32 or int64: row of the start pool for each trajectory
  at::Tensor goal_index = {};   // the same for the goal pool
};

// Number of rows for so many control points.
int64_t spline_rows(int64_t control_points, const SplineOptions& options = {});

// Rows of the splines of control points [B, n, D] in float32, float64, float16 or bfloat16, from `start` to `goal` or to
// rest. `dt` between two rows in seconds: a number, or a float32 or float64 tensor that is a scalar or [B, 1].
// Throws c10::ValueError or c10::TypeError naming the argument, and c10::NotImplementedError for a dt that requires
// grad (the Python functions differentiate by it).
Trajectory spline(const at::Tensor& control_points, const StartState& start, const GoalState& goal, double dt,
                  const SplineOptions& options = {});
Trajectory spline(const at::Tensor& control_points, const StartState& start, const GoalState& goal,
                  const at::Tensor& dt, const SplineOptions& options = {});

}  // namespace traj_integrator
