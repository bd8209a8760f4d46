// The maps as autograd knows them: one node for a step, one for its vector-Jacobian product.
#pragma once

#include <optional>

#include "launch.h"

namespace traj_integrator {

using MaybeTensor = std::optional<at::Tensor>;

// What a step depends on, as launch_forward takes it.
struct StepArguments {
  ControlMap map;
  at::Tensor action;
  OptionalTensors start;
  at::Tensor start_index;
  at::Tensor dt;
  bool truncate_terminal_gradient;
};

// Memory of the caller's for results: plain contiguous tensors that share no memory with each other or the arguments.
struct CallerBuffers {
  Outputs output;
  at::Tensor gradient;  // of the action; undefined: a new tensor each time
};

// The step on tensors for which `is_plain` holds. With buffers, returns views of them that carry the graph; the buffers
// themselves stay plain memory, so that a loop over them hangs no graph onto the one before. A view that is used after
// its buffer was written again raises.
Outputs differentiable_step(const StepArguments& arguments, const CallerBuffers* buffers = nullptr);

// What else a vector-Jacobian product depends on.
struct VjpArguments {
  ControlMap map;
  OptionalTensors upstream;
  at::Tensor start_index;
  at::Tensor dt;
  std::array<int64_t, 4> start_rows;
  int64_t action_horizon;
  std::array<bool, 5> needs;
  bool truncate_terminal_gradient;
};
using Gradients = std::array<at::Tensor, 5>;

// In Python, gradients that are differentiated again, batched, traced or given tangents come from the operators that are
// registered there; in C++ alone from a second node, for derivatives of any order in reverse mode.
using GeneralVjp = Gradients (*)(const VjpArguments& arguments);
void set_general_vjp(GeneralVjp vjp);

}  // namespace traj_integrator
