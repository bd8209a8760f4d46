// Differentiable trajectory steps for C++ programs that link libtorch and no Python.
//
//   using namespace traj_integrator;
//   Trajectory motion = step(ControlMap::kClique, action, {position, velocity, acceleration}, 0.02);
//   motion.jerk.square().sum().backward();
//
// Results are those of the Python functions of traj_integrator_ros.kernels. Differentiable in the action and the start
// rows, to any order in reverse mode, and in forward mode.
#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>

#include "traj_integrator/control_map.h"

namespace traj_integrator {

// Rows at the start: [B, D], [1, D] for all, or a pool [S, D] for StepOptions::start_index. Undefined means 0.
struct StartState {
  at::Tensor position;
  at::Tensor velocity = {};
  at::Tensor acceleration = {};
  at::Tensor jerk = {};  // for kCliqueCentral only
};

// [B, H, D] each: rad, rad/s, rad/s^2, rad/s^3.
struct Trajectory {
  at::Tensor position;
  at::Tensor velocity;
  at::Tensor acceleration;
  at::Tensor jerk;
};

struct StepOptions {
  at::Tensor start_index = {};  // [B] int32 or int64: row of the start pool for each trajectory
  bool truncate_terminal_gradient = false;  // kCliqueCentral: as published, instead of the exact vjp
};

// Integrates actions [B, Ha, D] in float32, float64, float16 or bfloat16. `dt` in seconds: a number, or a float32 or
// float64 tensor that is a scalar, [Ha] (dt[h] leads from row h - 1 to h), [B, 1] or [B, Ha].
// Throws c10::ValueError or c10::TypeError naming the argument, and c10::NotImplementedError for a dt that requires
// grad (the Python functions differentiate with respect to it).
Trajectory step(ControlMap map, const at::Tensor& action, const StartState& start, double dt,
                const StepOptions& options = {});
Trajectory step(ControlMap map, const at::Tensor& action, const StartState& start, const at::Tensor& dt,
                const StepOptions& options = {});

// The same into the caller's contiguous tensors, without autograd and without allocation.
void step_out(ControlMap map, const at::Tensor& action, const StartState& start, double dt, Trajectory& out,
              const StepOptions& options = {});

}  // namespace traj_integrator
