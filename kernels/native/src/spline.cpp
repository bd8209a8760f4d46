// The public C++ function for B-splines.
#include "traj_integrator/spline.h"

#include <ATen/ops/empty.h>
#include <ATen/ops/zeros_like.h>

#include <cmath>

#include "bspline_tables.h"
#include "optional_tensors.h"
#include "spline_autograd.h"

namespace traj_integrator {
namespace {

using at::Tensor;
using Four = std::array<Tensor, 4>;

// The tangent of the rows is the map of the tangents.
Four with_tangents(const SplineArguments& a) {
  bool any = false;
  for (const Tensor& tensor : a.tensors()) any = any || tangent(tensor).defined();
  if (!any) return differentiable_spline(a);
  SplineArguments moved = a, still = a;
  moved.points = tangent(a.points).defined() ? tangent(a.points) : at::zeros_like(a.points);
  still.points = primal(a.points);
  for (size_t k = 0; k < 4; ++k) {
    moved.start.rows[k] = tangent(a.start.rows[k]), still.start.rows[k] = primal(a.start.rows[k]);
    moved.goal.rows[k] = tangent(a.goal.rows[k]), still.goal.rows[k] = primal(a.goal.rows[k]);
  }
  if (!any_defined(moved.start.rows)) moved.start.index = Tensor();
  if (a.goal.rows[0].defined() && !moved.goal.rows[0].defined()) {
    moved.goal.rows[0] = at::zeros_like(still.goal.rows[0]);
  }
  const Four tangents = differentiable_spline(moved);
  Four outputs = differentiable_spline(still);
  for (size_t k = 0; k < 4; ++k) outputs[k]._set_fw_grad(tangents[k], /*level=*/0, /*is_inplace_op=*/false);
  return outputs;
}

}  // namespace

int64_t spline_rows(int64_t control_points, const SplineOptions& options) {
  const SplineForm form = spline_form(options);
  return (control_points + form.head) * form.steps + 1;
}

Trajectory spline(const Tensor& control_points, const StartState& start, const GoalState& goal, const Tensor& dt,
                  const SplineOptions& options) {
  TORCH_CHECK_TYPE(dt.defined() && dt.is_floating_point(), "dt: expected a floating-point tensor");
  TORCH_CHECK_VALUE(dt.device().is_cpu(), "dt: expected a tensor on the CPU, got one on ", dt.device());
  TORCH_CHECK_NOT_IMPLEMENTED(!dt.requires_grad() && !tangent(dt).defined(),
                              "dt: the C++ functions have no derivative by dt; detach it, or use the Python functions");
  const SplineArguments arguments{spline_form(options),
                                  control_points,
                                  {{start.position, start.velocity, start.acceleration, start.jerk}, options.start_index},
                                  {{goal.position, goal.velocity, goal.acceleration, goal.jerk}, options.goal_index},
                                  dt.numel() == 1 ? dt.reshape({1, 1}) : dt};
  check(arguments);
  Four outputs = with_tangents(arguments);
  return {std::move(outputs[0]), std::move(outputs[1]), std::move(outputs[2]), std::move(outputs[3])};
}

Trajectory spline(const Tensor& control_points, const StartState& start, const GoalState& goal, double dt,
                  const SplineOptions& options) {
  TORCH_CHECK_VALUE(std::isfinite(dt) && dt > 0, "dt: expected a finite number of seconds > 0, got ", dt);
  Tensor seconds = at::empty({1, 1}, at::kDouble);
  *seconds.mutable_data_ptr<double>() = dt;
  return spline(control_points, start, goal, seconds, options);
}

}  // namespace traj_integrator
