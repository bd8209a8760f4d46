// The loops on tensors: no autograd; checks everything that could cause reads or writes out of bounds.
#pragma once

#include <ATen/core/Tensor.h>

#include <array>
#include <cstdint>
#include <optional>

#include "traj_integrator/control_map.h"

namespace traj_integrator {

using Outputs = std::array<at::Tensor, 4>;         // position, velocity, acceleration, jerk
// Whether two tensors overlap in memory, from their first to their last elements.
bool share_memory(const at::Tensor& a, const at::Tensor& b);

using OptionalTensors = std::array<at::Tensor, 4>;  // undefined means 0

// dt is [1 or B, 1 or Ha], s; start rows are [1 or B, D], or a pool [S, D] with start_index [B]. `into`, where defined,
// are contiguous outputs to write to.
Outputs launch_forward(ControlMap map, const at::Tensor& action, const OptionalTensors& start,
                       const at::Tensor& start_index, const at::Tensor& dt, const Outputs* into = nullptr);

// Gradients of the action and of the four start rows, undefined where `needs` says so. At least one of the upstream
// gradients is defined. Rows of a pool are summed in the order of the trajectories, in double. The gradient of the
// action goes into `action_into`, where defined, a contiguous tensor.
std::array<at::Tensor, 5> launch_vjp(ControlMap map, const OptionalTensors& upstream,
                                           const at::Tensor& start_index, const at::Tensor& dt,
                                           const std::array<int64_t, 4>& start_rows, int64_t action_horizon,
                                           const std::array<bool, 5>& needs, bool truncate_terminal,
                                           const at::Tensor& action_into = {});

// Gradient of dt, float64 in its shape, summed over the trajectories and steps that share an element. Inputs are those
// of launch_forward, upstream gradients those of launch_vjp, in the action's dtype.
at::Tensor launch_dt_gradient(ControlMap map, const OptionalTensors& upstream, const at::Tensor& action,
                              const OptionalTensors& start, const at::Tensor& start_index, const at::Tensor& dt);

}  // namespace traj_integrator
