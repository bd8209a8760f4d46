// The public C++ functions.
#include "traj_integrator/step.h"

#include <ATen/ops/empty.h>
#include <ATen/ops/zeros_like.h>

#include <cmath>

#include "autograd.h"
#include "problem.h"

namespace traj_integrator {
namespace {

at::Tensor seconds(double dt) {
  TORCH_CHECK_VALUE(std::isfinite(dt) && dt > 0, "dt: expected a finite number of seconds > 0, got ", dt);
  at::Tensor tensor = at::empty({1, 1}, at::kDouble);
  *tensor.mutable_data_ptr<double>() = dt;
  return tensor;
}

bool any_tangent(const StepArguments& arguments) {
  bool any = tangent(arguments.action).defined();
  for (const at::Tensor& rows : arguments.start) any = any || tangent(rows).defined();
  return any;
}

// The maps are linear: the tangent of the outputs is the map of the tangents.
Outputs step_forward_mode(const StepArguments& arguments) {
  StepArguments moved = arguments, still = arguments;
  moved.action = tangent(arguments.action).defined() ? tangent(arguments.action) : at::zeros_like(arguments.action);
  still.action = primal(arguments.action);
  for (size_t k = 0; k < 4; ++k) {
    moved.start[k] = tangent(arguments.start[k]);
    still.start[k] = primal(arguments.start[k]);
  }
  const Outputs tangents = differentiable_step(moved);
  Outputs outputs = differentiable_step(still);
  for (size_t k = 0; k < 4; ++k) outputs[k]._set_fw_grad(tangents[k], /*level=*/0, /*is_inplace_op=*/false);
  return outputs;
}

void check_start(ControlMap map, const StartState& start) {
  TORCH_CHECK_TYPE(start.position.defined(), "start.position: expected a tensor, got an undefined one");
  TORCH_CHECK_VALUE(!start.jerk.defined() || map == ControlMap::kCliqueCentral,
                    "start.jerk: expected an undefined tensor: only the central difference reads it");
}

at::Tensor as_rows_and_steps(ControlMap map, const at::Tensor& dt) {
  TORCH_CHECK_TYPE(dt.defined() && dt.is_floating_point(), "dt: expected a floating-point tensor");
  const at::Tensor rows = dt.dim() < 2 ? dt.reshape({1, -1}) : dt;
  TORCH_CHECK_VALUE(!row_of(map).one_dt || rows.size(-1) == 1,
                    "dt: central differences need one step length per trajectory, got shape ", dt.sizes());
  return rows;
}

}  // namespace

Trajectory step(ControlMap map, const at::Tensor& action, const StartState& start, const at::Tensor& dt,
                const StepOptions& options) {
  check_start(map, start);
  TORCH_CHECK_NOT_IMPLEMENTED(!dt.requires_grad() && !tangent(dt).defined(),
                              "dt: the C++ functions have no derivative with respect to dt; detach it, or use the Python "
                              "functions");
  const StepArguments arguments{map,
                                action,
                                {start.position, start.velocity, start.acceleration, start.jerk},
                                options.start_index,
                                as_rows_and_steps(map, dt),
                                options.truncate_terminal_gradient};
  Outputs outputs = any_tangent(arguments) ? step_forward_mode(arguments) : differentiable_step(arguments);
  return {std::move(outputs[0]), std::move(outputs[1]), std::move(outputs[2]), std::move(outputs[3])};
}

Trajectory step(ControlMap map, const at::Tensor& action, const StartState& start, double dt,
                const StepOptions& options) {
  return step(map, action, start, seconds(dt), options);
}

void step_out(ControlMap map, const at::Tensor& action, const StartState& start, double dt, Trajectory& out,
              const StepOptions& options) {
  check_start(map, start);
  const Outputs into{out.position, out.velocity, out.acceleration, out.jerk};
  launch_forward(map, action, {start.position, start.velocity, start.acceleration, start.jerk}, options.start_index,
                 seconds(dt), &into);
}

}  // namespace traj_integrator
