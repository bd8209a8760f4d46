// Batches of trajectories, on several threads.
#pragma once

#include <cstdint>

#include "trajectory.h"

namespace traj_integrator::retiming {

// Arrays of a batch of B trajectories with W rows of D joints; strides are 0 where all share one row. Inputs that are null
// are left out.
struct Batch {
  int64_t batch, rows, dof, points, law;
  const double *position, *velocity, *acceleration, *knots;  // [B, W, D], knots [1 or B, W]
  const double* limits[4];                                   // velocity, lowest, highest, jerk: [1 or B, D]
  const double *ends, *duration;                             // [B, 4]; [B] or null
  int64_t knots_stride, limits_stride;
  Options options;
  bool rests;
  // Results.
  int64_t* info;     // [B, 6]: status, points, unchanged, iterations, rounds, and 0
  double* scalars;   // [B, 6]: duration, largest start speed, three ratios, step of the law
  double *times, *states;              // [B, P]; [3, B, P, D]: position, velocity, acceleration
  double *row_times, *segment_ratio;   // [B, W]; [B, W - 1, 3]
  int64_t* segment_joint;              // [B, W - 1, 3]
  double* laws;                        // [3, B, L]: phase (or coefficients of the base law), rate, times
};

void retime(const Batch& batch, int64_t threads);


}  // namespace traj_integrator::retiming
