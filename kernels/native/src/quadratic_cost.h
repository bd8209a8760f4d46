// The quadratic cost of trajectories and its gradients, on arrays.
#pragma once

#include "call.h"

namespace traj_integrator {

struct CostCall {
  static constexpr int kTermFields = 6;

  Call map;                      // without outputs; real arrays may be float and double
  Array terms[4][kTermFields];   // weight, target, terminal weight, limit weight, lower and upper limit of each output
  Array cost;                    // [B]
  Array grad_action;             // [B, Ha, D] of the cost's type, or none
  Array grad_ends[8];            // [B, D] each, double, not summed over a pool: of start and goal; or none
};

// Writes cost and gradients. Throws a Misfit, having written nothing, where arrays do not belong together.
void quadratic_cost(const CostCall& call, int threads);

}  // namespace traj_integrator
