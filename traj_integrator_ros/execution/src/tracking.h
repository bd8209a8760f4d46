// The way of joints to their plan: least squares of a triple integrator whose jerk is constant in each interval, within
// bounds.
#pragma once

namespace traj_integrator::execution {

struct TrackingProblem {
  const double* steps;  // [count], s, positive
  long count, dof;
  const double* weights;  // [count, 3, weighted] of the squares of position, velocity and acceleration at ends of steps
  long weighted;          // dof, or 1: all joints have the same weights
  double jerk_weight;     // of the integral of the square of the jerk, positive
  double time_scale;      // s, in which differences go: the unit of time inside
  const double* start;    // [3, dof]
  const double *low, *high;  // [4, count, dof]: position, velocity and acceleration at ends of steps, jerk in them
};

struct TrackingResult {
  double* states;     // [count + 1, 3, dof]
  double* jerks;      // [count, dof]
  double* violation;  // [dof], rad
  long* iterations;   // [dof]
};

// Each joint by itself. Bounds that are not finite are none; where they cannot be kept, their violation is the least.
void track(const TrackingProblem& problem, const TrackingResult& result);

}  // namespace traj_integrator::execution
