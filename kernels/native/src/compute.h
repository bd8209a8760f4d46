// Runs the loops over a batch, in parallel, on raw memory: no tensors, no allocation once the scratch memory has grown.
#pragma once

#include "problem.h"

namespace traj_integrator {

// Where the gradients of the start rows are written: [rows, D] each, null if not wanted. Rows that trajectories share
// (a pool, or one row for all) are summed in the order of the trajectories, in double.
template <class Scalar>
struct StartGradients {
  Scalar* data[kStartRows];
  int64_t rows[kStartRows];
  StartIndex index;
};

// Both fill in how results are staged; `compute` of a vjp also what the loops are to know of the start rows.
template <class Scalar>
void compute(ForwardProblem<Scalar> problem, int64_t batch);
template <class Scalar>
void compute(VjpProblem<Scalar> problem, int64_t batch, const StartGradients<Scalar>& starts);

}  // namespace traj_integrator
