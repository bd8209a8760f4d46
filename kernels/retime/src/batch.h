// Batches of trajectories, on several threads.
#pragma once

#include <cstdint>

#include "trajectory.h"

namespace traj_integrator::retiming {

// Arrays of a batch of B trajectories with W rows of D joints; inputs that are null are left out.
struct Batch {
  int64_t batch, rows, dof, points;
  const double *position, *velocity, *acceleration, *knots;  // [B, W, D], knots [W]
  const double* limits[4];                                   // velocity, lowest, highest, jerk: [1 or B, D]
  const double *ends, *duration;                             // [B, 4]; [B] or null
  int64_t limits_stride;                                     // 0 where all share them
  Options options;
  // Results.
  int64_t* info;     // [B, 6]: status, points, unchanged, iterations, rounds, points of the gradient
  double* scalars;   // [B, 5]: duration, largest start speed, three ratios
  double *times, *states;              // [B, P]; [3, B, P, D]: position, velocity, acceleration
  double *row_times, *segment_ratio;   // [B, W]; [B, W - 1, 3]
  int64_t* segment_joint;              // [B, W - 1, 3]
  // For the gradient of the third order, or null: see Gradient. `gradient_points` of each trajectory.
  int64_t gradient_points;
  double *adjoint, *phase, *by_limits;  // [B, G, 3, D], [B, G, 4], [B, 4, D]
  int64_t* piece;                       // [B, G]; knots that are waypoints [B, W] are in `knot_of_row`
  int64_t* knot_of_row;
};

void retime(const Batch& batch, int64_t threads);

}  // namespace traj_integrator::retiming
