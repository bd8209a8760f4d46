// Gradient of the step lengths on raw memory: no tensors, and no framework except for threads.
#pragma once

#include "problem.h"

namespace traj_integrator {

template <class Scalar>
struct DtGradientProblem {
  ControlMap map;
  int64_t batch;
  int64_t action_horizon;
  int64_t dof;
  const Scalar* action;              // [B, Ha, D]
  const Scalar* start[kStartRows];   // [rows, D] each; null means 0
  int64_t start_stride[kStartRows];  // D, or 0 where one row serves all
  StartIndex start_index;
  StepLengths dt;
  const Scalar* gradient[kOutputs];  // [B, H, D] each; null means 0
};

// Writes the gradient in the shape of dt, [1 or B, 1 or Ha] according to its strides. Sums are taken in double, in the
// order of the trajectories, so that results are the same to the last bit for any number of threads.
template <class Scalar>
void dt_gradient(const DtGradientProblem<Scalar>& problem, double* result);

}  // namespace traj_integrator
