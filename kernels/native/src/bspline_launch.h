// The spline loops over tensors: no autograd, checks of what would read or write outside of memory.
#pragma once

#include <ATen/core/Tensor.h>

#include <array>
#include <cstdint>

#include "bspline.h"

namespace traj_integrator {

// Rows of a start or a goal: position, velocity, acceleration, jerk, each [rows, D], undefined for 0; a goal whose
// position is undefined is none.
struct SplineEnd {
  std::array<at::Tensor, 4> rows;
  at::Tensor index;  // [B] int32 or int64; undefined: 1 row or B
};

// What turns control points into rows; `splines/form.py` has the words.
struct SplineForm {
  int64_t degree;
  int64_t steps;
  int64_t head;         // extended control points that carry a state
  bool ignores_last;    // before a goal
  at::Tensor weights;        // [steps + 1, 4 degree - 2], float64
  at::Tensor state_weights;  // [head, 4], float64
};

// What the loops need to know of splines with `points` control points; the form has to outlive it.
SplineShape shape_of(const SplineForm& form, int64_t points, int64_t dof, bool has_goal, const double* dt,
                     int64_t dt_stride);

// dt is [1 or B, 1]. `into` are contiguous outputs to write to, or all undefined.
std::array<at::Tensor, 4> launch_spline_forward(const SplineForm& form, const at::Tensor& action, const SplineEnd& start,
                                                const SplineEnd& goal, const at::Tensor& dt,
                                                const std::array<at::Tensor, 4>& into);

// Gradients of the control points, of start and of goal (goal_rows < 0: there is none), undefined where `needs` says so;
// those in `into`, where defined, are contiguous tensors to write to. Rows of a pool are summed in the order of the
// trajectories, in double.
std::array<at::Tensor, 9> launch_spline_vjp(const SplineForm& form, const std::array<at::Tensor, 4>& upstream,
                                            const at::Tensor& start_index, const at::Tensor& goal_index,
                                            const at::Tensor& dt, int64_t start_rows, int64_t goal_rows, int64_t points,
                                            const std::array<bool, 9>& needs, const std::array<at::Tensor, 9>& into);

// Gradient of dt, float64 in its shape, summed over what the shape shares.
at::Tensor launch_spline_dt_gradient(const SplineForm& form, const std::array<at::Tensor, 4>& upstream,
                                     const at::Tensor& action, const SplineEnd& start, const SplineEnd& goal,
                                     const at::Tensor& dt);

}  // namespace traj_integrator
