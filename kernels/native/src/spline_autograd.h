// B-splines as autograd knows them: one node for a spline, one for its vector-Jacobian product.
#pragma once

#include <array>

#include "bspline_launch.h"

namespace traj_integrator {

// What a spline depends on, as launch_spline_forward takes it.
struct SplineArguments {
  SplineForm form;
  at::Tensor points;
  SplineEnd start, goal;
  at::Tensor dt;

  // Control points, start rows, goal rows; undefined ones are 0.
  std::array<at::Tensor, 9> tensors() const {
    std::array<at::Tensor, 9> all{points};
    for (size_t k = 0; k < 4; ++k) all[1 + k] = start.rows[k], all[5 + k] = goal.rows[k];
    return all;
  }
};

// What its vector-Jacobian product depends on, as launch_spline_vjp takes it.
struct SplineVjpArguments {
  SplineForm form;
  std::array<at::Tensor, 4> upstream;
  at::Tensor start_index, goal_index, dt;
  int64_t start_rows, goal_rows, points;
  std::array<bool, 9> needs;
};

// Raises what is wrong with dtypes and places, and a goal without a position; the launchers check shapes.
void check(const SplineArguments& arguments);

// The spline on tensors without tangents.
std::array<at::Tensor, 4> differentiable_spline(const SplineArguments& arguments);

// Its vector-Jacobian product; what `needs` does not name is undefined.
std::array<at::Tensor, 9> differentiable_spline_vjp(const SplineVjpArguments& arguments);

// In Python, gradients that are differentiated again, batched, traced or given tangents come from the operators that are
// registered there; in C++ alone from a second node, for derivatives of any order in reverse mode.
using GeneralSplineVjp = std::array<at::Tensor, 9> (*)(const SplineVjpArguments& arguments);
void set_general_spline_vjp(GeneralSplineVjp vjp);

}  // namespace traj_integrator
