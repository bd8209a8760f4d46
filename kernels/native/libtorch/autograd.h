// The maps as autograd knows them: one node for a step, one for its vector-Jacobian product.
#pragma once

#include "launch.h"

namespace traj_integrator {

// The step on tensors without tangents.
Four differentiable_step(const Step& step);

// The vector-Jacobian product; what `needs` does not name is undefined.
Nine differentiable_vjp(const StepVjp& vjp);

template <class Tensors>
bool any_defined(const Tensors& tensors) {
  for (const at::Tensor& tensor : tensors) {
    if (tensor.defined()) return true;
  }
  return false;
}

}  // namespace traj_integrator
