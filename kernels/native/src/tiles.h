// What is made of trajectories a few at a time, so that none leaves the caches: costs with gradients, the gradient of dt.
#pragma once

#include "call.h"

namespace traj_integrator {

struct CostCall {
  static constexpr int kFields = 6;

  Call map;                          // without outputs; real arrays may be float and double
  Array terms[kOutputs][kFields];    // weight, target, terminal weight, limit weight, lower and upper limit of each output
  Array cost;                        // [B]
  Array grad_action;                 // [B, Ha, D] of the cost's type, or none
  Array grad_ends[kEnds];            // [B, D] each, double, not summed over a pool; or none
};

// Both throw a Misfit, having written nothing, where arrays do not belong together.

// Writes cost and gradients.
void quadratic_cost(const CostCall& call, int threads);

// Writes the gradient of dt in the shape of dt, from everything else; outputs of the call are their gradients.
void dt_gradient(const Call& call, const Array& result, int threads);

}  // namespace traj_integrator
