// The maps as autograd knows them: one node for a step, one for its vector-Jacobian product.
#pragma once

#include "launch.h"
#include "optional_tensors.h"

namespace traj_integrator {

// What a step depends on, as launch_forward takes it.
struct StepArguments {
  ControlMap map;
  at::Tensor action;
  OptionalTensors start;
  at::Tensor start_index;
  at::Tensor dt;
  bool truncate_terminal_gradient;
};

// The caller's memory for results: plain contiguous tensors that share no memory with each other or the arguments.
struct CallerBuffers {
  Outputs output;
  at::Tensor gradient;  // of the action; undefined: a new tensor each time
};

// The step on tensors for which `is_plain` holds. With buffers, returns views of them that carry the graph; the buffers
// themselves stay plain memory, so that the graph does not grow in a loop over them. Using a view after its buffer has
// been written again raises an error.
Outputs differentiable_step(const StepArguments& arguments, const CallerBuffers* buffers = nullptr);

// The further arguments of a vector-Jacobian product.
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

// The vector-Jacobian product; what `needs` does not name is undefined.
Gradients differentiable_vjp(const VjpArguments& arguments);

// In Python, gradients that are differentiated again, batched, traced or given tangents are computed by the registered
// operators; in C++ without Python by a second node, for derivatives of any order in reverse mode.
using GeneralVjp = Gradients (*)(const VjpArguments& arguments);
void set_general_vjp(GeneralVjp vjp);

}  // namespace traj_integrator
