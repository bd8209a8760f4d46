// A quadratic cost of trajectories and its gradient, on raw memory: forward map, cost and vjp a few trajectories at
// a time, so that no trajectory leaves the caches.
#pragma once

#include "call.h"
#include "problem.h"

namespace traj_integrator {

// Real numbers of either precision.
struct RealArray {
  const void* data = nullptr;
  bool is_double = false;

  double at(int64_t i) const {
    return is_double ? static_cast<const double*>(data)[i] : static_cast<double>(static_cast<const float*>(data)[i]);
  }
};

// One array for each trajectory, step and joint, or shared between them where a stride is 0; joints are neighbours.
struct CostArray {
  RealArray values;
  int64_t batch_stride;
  int64_t row_stride;

  bool given() const { return values.data != nullptr; }
};

// The cost of one output; arrays that are not given are 0, limits are given together with their weight.
struct GivenTerm {
  CostArray weight;
  CostArray target;
  CostArray terminal_weight;  // added to the weight in the last row
  CostArray limit_weight;
  CostArray lower;
  CostArray upper;

  bool is_per_trajectory() const {
    return weight.batch_stride != 0 || target.batch_stride != 0 || terminal_weight.batch_stride != 0;
  }
};

struct EndRows {
  RealArray rows[kStartRows];  // [rows, D] each; no data means 0
  PickedRows picked;
};

struct CostProblem {
  ControlMap map;
  SplineShape spline; // in place of the map, where it is one
  int64_t batch;
  int64_t action_horizon;
  int64_t horizon;
  int64_t dof;
  RealArray action;  // [B, Ha, D]
  EndRows start;
  EndRows goal;      // of splines with one
  StepLengths dt;
  GivenTerm terms[kOutputs];
  bool is_double;         // the two below; else they are float
  void* cost;             // [B]
  void* grad_action;      // [B, Ha, D], or null where not wanted
  double* grad_end[kEnds];  // [B, D] each: not summed over a pool; null where not wanted
};

void quadratic_cost(const CostProblem& problem, int threads);

}  // namespace traj_integrator
