// One call of a map, on arrays: checked once, for tensors and buffers, for splines and all other maps.
#pragma once

#include "array.h"
#include "misfit.h"
#include "problem.h"
#include "spline_form.h"
#include "traj_integrator/control_map.h"

namespace traj_integrator {

// Rows of the states in which trajectories begin, or end: position, velocity, acceleration, jerk.
struct EndArrays {
  Array rows[4];  // [S, D] each; none means 0
  Array index;    // [B], 32 or 64 bits: row of each trajectory; none where S is 1 or B
};

// The arrays of a map. Real ones have one type, but for those of dt, which are double.
struct Call {
  ControlMap map{};
  const SplineForm* spline = nullptr;  // in place of the map
  bool has_goal = false;               // of a spline
  bool truncate_terminal = false;      // vjp of the central difference: as published
  Array action;                        // [B, Ha, D]
  EndArrays start, goal;
  Array dt;          // [1 or B, 1 or Ha], s
  Array outputs[4];  // [B, H, D]: position, velocity, acceleration, jerk
  bool has_new_outputs = false;  // made for this call: they lie apart from everything else

  int64_t rows(int64_t actions) const {
    return spline != nullptr ? spline->rows(actions) : output_horizon(map, actions);
  }
};

// Each of them throws a Misfit, having written nothing, where arrays do not belong together.

// Writes the outputs.
void forward(const Call& call, int threads);

// Writes action, start and goal, where given, from the gradients of the outputs; of these, those that are not given are 0.
// Rows that trajectories share are summed in the order of the trajectories, in double.
void vjp(const Call& call, int threads);

// Writes the gradient of dt in the shape of dt, from everything else.
void dt_gradient(const Call& call, const Array& result, int threads);

// The parts of the checks that the costs of trajectories have, too.

// `type` 0 stands for any real one.
PickedRows picked_rows(const char* name, const EndArrays& end, char type, int64_t batch, int64_t dof);
StepLengths step_lengths(const Call& call, int64_t batch, int64_t horizon);
void expect_action(const Array& action);

}  // namespace traj_integrator
