// The maps on tensors, which are linear in actions, start and goal, and their vector-Jacobian products.
#pragma once

#include <ATen/core/Tensor.h>

#include <algorithm>
#include <array>
#include <cstdint>

#include "call.h"
#include "traj_integrator/spline.h"

namespace traj_integrator {

using Four = std::array<at::Tensor, 4>;   // position, velocity, acceleration, jerk; undefined means 0
using Nine = std::array<at::Tensor, 9>;   // action [B, Ha, D], four rows of the start and four of the goal, [S, D] each
using Needs = std::array<bool, 9>;        // which of these are wanted

// A map with everything except its linear inputs.
struct Linear {
  ControlMap map{};
  const SplineForm* spline = nullptr;  // in place of the map; lives as long as the program
  bool truncate_terminal = false;
  at::Tensor dt;                       // [1 or B, 1 or Ha], s
  at::Tensor index[2];                 // [B]: row of the start of each trajectory, and of its goal
  int64_t actions = 0;
  int64_t rows[2] = {-1, -1};          // for start and goal; negative: there are none

  void take_sizes(const Nine& inputs);
};

// The form of a spline, made once; throws c10::ValueError for an impossible one.
const SplineForm& form_of(const SplineOptions& options);

// Without autograd; copies tensors that the loops cannot read in place. `into`, where defined, are contiguous outputs.
Four launch_forward(const Linear& linear, const Nine& inputs, const Four& into = {});
// Gradients that `needs` does not name are undefined.
Nine launch_vjp(const Linear& linear, const Four& upstream, const Needs& needs);

// The same for autograd, on tensors without tangents.
Four differentiable_step(const Linear& linear, const Nine& inputs);
Nine differentiable_vjp(const Linear& linear, const Four& upstream, const Needs& needs);

// The first tensor that is defined; undefined if there is none.
template <class Tensors>
at::Tensor first_defined(const Tensors& tensors) {
  for (const at::Tensor& tensor : tensors) {
    if (tensor.defined()) return tensor;
  }
  return {};
}

}  // namespace traj_integrator
