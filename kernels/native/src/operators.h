// The dispatcher's operators `traj_integrator_native::step`, `step_out` and `step_vjp`, as C++ calls.
#pragma once

#include <ATen/core/Tensor.h>

#include <array>
#include <cstdint>
#include <optional>
#include <tuple>
#include <vector>

#include "traj_integrator/control_map.h"

namespace traj_integrator {

using StepOutputs = std::tuple<at::Tensor, at::Tensor, at::Tensor, at::Tensor>;
using StepGradients = std::tuple<at::Tensor, at::Tensor, at::Tensor, at::Tensor, at::Tensor>;
using MaybeTensor = std::optional<at::Tensor>;

// One step through the dispatcher: differentiable, traceable.
StepOutputs call_step(int64_t map, const at::Tensor& action, const MaybeTensor& p0, const MaybeTensor& v0,
                      const MaybeTensor& a0, const MaybeTensor& j0, const MaybeTensor& start_index, const at::Tensor& dt,
                      bool truncate_terminal_gradient);

StepGradients call_step_vjp(int64_t map, const MaybeTensor& g_position, const MaybeTensor& g_velocity,
                                  const MaybeTensor& g_acceleration, const MaybeTensor& g_jerk,
                                  const MaybeTensor& start_index, const at::Tensor& dt, at::IntArrayRef start_rows,
                                  int64_t action_horizon, at::IntArrayRef needs, bool truncate_terminal_gradient);

}  // namespace traj_integrator
