// The public C++ functions.
#include "traj_integrator/step.h"

#include <ATen/ops/full.h>
#include <ATen/ops/zeros_like.h>

#include <cmath>
#include <map>
#include <mutex>
#include <tuple>
#include <utility>

#include "linear.h"
#include "traj_integrator/spline.h"

namespace traj_integrator {
namespace {

using at::Tensor;

Tensor seconds(double dt) {
  TORCH_CHECK_VALUE(std::isfinite(dt) && dt > 0, "dt: expected a finite number of seconds > 0, got ", dt);
  return at::full({1, 1}, dt, at::kDouble);
}

// A dual number's two parts, of level 0; a tensor without a tangent is its own primal.
Tensor tangent(const Tensor& tensor) { return tensor.defined() ? tensor._fw_grad(0) : tensor; }
Tensor primal(const Tensor& tensor) { return tangent(tensor).defined() ? tensor._fw_primal(0) : tensor; }

// The maps are linear: the tangent of the outputs is the map of the tangents.
Trajectory with_tangents(Linear linear, const Nine& inputs) {
  linear.take_sizes(inputs);
  Nine tangents, primals;
  std::transform(inputs.begin(), inputs.end(), tangents.begin(), &tangent);
  std::transform(inputs.begin(), inputs.end(), primals.begin(), &primal);
  Four outputs = differentiable_step(linear, primals);
  if (first_defined(tangents).defined()) {
    if (!tangents[0].defined()) tangents[0] = at::zeros_like(primals[0]);
    const Four moved = differentiable_step(linear, tangents);
    for (size_t k = 0; k < 4; ++k) outputs[k]._set_fw_grad(moved[k], /*level=*/0, /*is_inplace_op=*/false);
  }
  return {std::move(outputs[0]), std::move(outputs[1]), std::move(outputs[2]), std::move(outputs[3])};
}

Tensor checked_dt(const Tensor& dt) {
  TORCH_CHECK_TYPE(dt.defined() && dt.is_floating_point(), "dt: expected a floating-point tensor");
  TORCH_CHECK_NOT_IMPLEMENTED(!dt.requires_grad() && !tangent(dt).defined(),
                              "dt: the C++ functions have no derivative with respect to dt; detach it, or use the Python "
                              "functions");
  return dt.dim() < 2 ? dt.reshape({1, -1}) : dt;
}

Nine inputs_of(const Tensor& action, const StartState& start, const GoalState& goal = {}) {
  TORCH_CHECK_TYPE(start.position.defined(), "start.position: expected a tensor, got an undefined one");
  return {action,        start.position,  start.velocity, start.acceleration, start.jerk,
          goal.position, goal.velocity, goal.acceleration, goal.jerk};
}

std::pair<Linear, Nine> step_of(ControlMap map, const Tensor& action, const StartState& start, const Tensor& dt,
                                const StepOptions& options) {
  TORCH_CHECK_VALUE(!start.jerk.defined() || map == ControlMap::kCliqueCentral,
                    "start.jerk: expected an undefined tensor: only the central difference reads it");
  return {{map, nullptr, options.truncate_terminal_gradient, dt, {options.start_index, {}}}, inputs_of(action, start)};
}

}  // namespace

Trajectory step(ControlMap map, const Tensor& action, const StartState& start, const Tensor& dt, const StepOptions& options) {
  const auto [linear, inputs] = step_of(map, action, start, checked_dt(dt), options);
  return with_tangents(linear, inputs);
}

Trajectory step(ControlMap map, const Tensor& action, const StartState& start, double dt, const StepOptions& options) {
  return step(map, action, start, seconds(dt), options);
}

void step_out(ControlMap map, const Tensor& action, const StartState& start, double dt, Trajectory& out,
              const StepOptions& options) {
  const auto [linear, inputs] = step_of(map, action, start, seconds(dt), options);
  launch_forward(linear, inputs, {out.position, out.velocity, out.acceleration, out.jerk});
}

int64_t spline_rows(int64_t control_points, const SplineOptions& options) { return form_of(options).rows(control_points); }

Trajectory spline(const Tensor& control_points, const StartState& start, const GoalState& goal, const Tensor& dt,
                  const SplineOptions& options) {
  TORCH_CHECK_TYPE(control_points.defined() && control_points.dim() == 3,
                   "control_points: expected a floating-point tensor [batch, points, dof]");
  const bool has_goal = goal.position.defined();
  TORCH_CHECK_VALUE(has_goal || !(goal.velocity.defined() || goal.acceleration.defined() || goal.jerk.defined()),
                    "goal.position: expected a tensor where a goal has anything else, got an undefined one");
  TORCH_CHECK_VALUE(has_goal || !options.goal_index.defined(), "goal_index: expected none without a goal");
  return with_tangents({{}, &form_of(options), false, checked_dt(dt), {options.start_index, options.goal_index}},
                       inputs_of(control_points, start, goal));
}

Trajectory spline(const Tensor& control_points, const StartState& start, const GoalState& goal, double dt,
                  const SplineOptions& options) {
  return spline(control_points, start, goal, seconds(dt), options);
}

const SplineForm& form_of(const SplineOptions& options) {
  static std::mutex mutex;
  static std::map<std::tuple<int64_t, int64_t, bool>, const SplineForm> known;
  const bool is_curobo = options.layout == SplineLayout::kCurobo;
  const std::lock_guard<std::mutex> lock(mutex);
  const auto place = known.find({options.degree, options.steps, is_curobo});
  if (place != known.end()) return place->second;
  try {
    SplineForm form(options.degree, options.steps, is_curobo);
    return known.emplace(std::tuple{options.degree, options.steps, is_curobo}, std::move(form)).first->second;
  } catch (const Misfit& misfit) {
    TORCH_CHECK_VALUE(false, misfit.text);
  }
}

}  // namespace traj_integrator
