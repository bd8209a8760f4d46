// Chooses the loops for this CPU.
#pragma once

#include "problem.h"

namespace traj_integrator {

template <class Problem>
using Loop = void (*)(const Problem& problem, int64_t begin, int64_t end, double* scratch);

// The loops for the CPU this runs on, chosen once. TRAJ_INTEGRATOR_INSTRUCTION_SET=baseline|avx2|avx512 lowers it.
template <class Scalar>
Loop<ForwardProblem<Scalar>> forward_loop();
template <class Scalar>
Loop<VjpProblem<Scalar>> vjp_loop();

// Cost of the four outputs of one trajectory, `size` numbers each; those with a term are overwritten by their
// gradients.
using CostLoop = double (*)(const CostTerm* terms, int64_t size, double* const* outputs);
CostLoop cost_loop();

// "baseline", "avx2" or "avx512".
const char* instruction_set_name();

}  // namespace traj_integrator
