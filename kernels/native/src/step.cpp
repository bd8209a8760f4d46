// The public C++ functions.
#include "traj_integrator/step.h"

#include <ATen/ops/empty.h>

#include <cmath>

#include "launch.h"
#include "operators.h"
#include "problem.h"

namespace traj_integrator {
namespace {

at::Tensor seconds(double dt) {
  TORCH_CHECK_VALUE(std::isfinite(dt) && dt > 0, "dt: expected a finite number of seconds > 0, got ", dt);
  at::Tensor tensor = at::empty({1, 1}, at::kDouble);
  *tensor.mutable_data_ptr<double>() = dt;
  return tensor;
}

MaybeTensor maybe(const at::Tensor& tensor) { return tensor.defined() ? MaybeTensor(tensor) : std::nullopt; }

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
  auto [position, velocity, acceleration, jerk] =
      call_step(static_cast<int64_t>(map), action, start.position, maybe(start.velocity), maybe(start.acceleration),
                maybe(start.jerk), maybe(options.start_index), as_rows_and_steps(map, dt),
                options.truncate_terminal_gradient);
  return {std::move(position), std::move(velocity), std::move(acceleration), std::move(jerk)};
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
