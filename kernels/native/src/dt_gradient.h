// Gradient of the step lengths on raw memory.
#pragma once

#include "problem.h"

namespace traj_integrator {

// Writes the gradient in the shape of dt, [1 or B, 1 or Ha] according to its strides. `problem` has the gradients of the
// outputs in place of the outputs; null means 0. Sums are taken in double, in the order of the trajectories, so that
// results are the same to the last bit for any number of threads.
template <class Scalar>
void dt_gradient(const ForwardProblem<Scalar>& problem, int64_t batch, double* result, int threads);

}  // namespace traj_integrator
