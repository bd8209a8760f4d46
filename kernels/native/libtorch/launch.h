// The maps on tensors: no autograd; copies what the loops cannot read as it is.
#pragma once

#include <ATen/core/Tensor.h>

#include <array>
#include <cstdint>

#include "spline_form.h"
#include "traj_integrator/spline.h"

namespace traj_integrator {

using Four = std::array<at::Tensor, 4>;   // position, velocity, acceleration, jerk; undefined means 0
using Nine = std::array<at::Tensor, 9>;   // of the action, four of the start, four of the goal

struct Map {
  ControlMap map{};
  const SplineForm* spline = nullptr;  // in place of the map; lives as long as the program
  bool truncate_terminal = false;
};

// The form of a spline, made once; throws c10::ValueError where there is none.
const SplineForm& form_of(const SplineOptions& options);

// Rows [1 or B, D], or a pool [S, D] with an index [B]. A goal whose position is undefined is none.
struct End {
  Four rows;
  at::Tensor index;
};

struct Step {
  Map map;
  at::Tensor action;  // [B, Ha, D]
  End start, goal;
  at::Tensor dt;      // [1 or B, 1 or Ha], s

  Nine tensors() const {
    Nine all{action};
    for (size_t k = 0; k < 4; ++k) all[1 + k] = start.rows[k], all[5 + k] = goal.rows[k];
    return all;
  }
};

// What its vector-Jacobian product depends on.
struct StepVjp {
  Map map;
  Four upstream;
  at::Tensor start_index, goal_index, dt;
  int64_t start_rows, goal_rows;  // goal_rows < 0: there is none
  int64_t actions;
  std::array<bool, 9> needs;
};

// `into`, where defined, are contiguous outputs to write to.
Four launch_forward(const Step& step, const Four& into = {});

// What `needs` does not name is undefined.
Nine launch_vjp(const StepVjp& vjp);

}  // namespace traj_integrator
