// One call of a map, on arrays: checked once, for tensors and buffers, for splines and all other maps.
#pragma once

#include <vector>

#include "array.h"
#include "problem.h"

namespace traj_integrator {

// The tables that turn control points into rows; `splines/form.py` has the terms, `splines/weights.py` the tables.
struct SplineForm {
  int64_t degree;
  int64_t steps;                      // rows for each segment
  int64_t head;                       // extended control points that carry a state
  bool ignores_last;                  // before a goal
  std::vector<double> weights;        // [steps + 1, 4 degree - 2]
  std::vector<double> state_weights;  // [head, 4]

  int64_t rows(int64_t points) const { return (points + head) * steps + 1; }
  // The number of control points that give so many rows.
  int64_t points(int64_t rows) const { return (rows - 1) / steps - head; }
  // The data of splines with `points` control points for the loops; the form has to outlive it.
  SplineShape shape(int64_t points, bool has_goal) const {
    return {.degree = static_cast<int>(degree), .steps = steps, .used = points - (has_goal && ignores_last), .head = head,
            .tail = has_goal ? head : degree, .has_goal = has_goal, .weights = weights.data(), .state_weights = state_weights.data()};
  }
};

// The arrays of a map. Real arrays share one type, except dt and its gradient, which are double.
struct Call {
  ControlMap map{};
  const SplineForm* spline = nullptr;  // in place of the map
  bool has_goal = false;               // of a spline
  bool truncate_terminal = false;      // vjp of the central difference: as published
  bool has_new_outputs = false;        // made for this call: they overlap nothing else
  Array action;                        // [B, Ha, D]
  Array ends[kEnds];        // position, velocity, acceleration, jerk of start and goal: [S, D] each, none means 0
  Array index[2];           // [B], 32 or 64 bits: row of each trajectory; none if S is 1 or B
  Array dt;                 // [1 or B, 1 or Ha], s
  Array outputs[kOutputs];  // [B, H, D]: position, velocity, acceleration, jerk

  int64_t rows(int64_t actions) const {
    return spline != nullptr ? spline->rows(actions) : output_horizon(map, actions);
  }
};

// Each of these throws a Misfit, having written nothing, if arrays do not belong together.

// Writes the outputs.
void forward(const Call& call, int threads);

// Writes action, start and goal, if given, from the gradients of the outputs; missing gradients are 0. Rows that
// trajectories share are summed in the order of the trajectories, in double.
void vjp(const Call& call, int threads);

// Results computed from a few trajectories at a time, which stay in the caches: costs with gradients, the gradient of
// dt.

struct CostCall {
  static constexpr int kFields = 6;

  Call map;                          // its outputs are not given; real arrays may be float and double
  Array terms[kOutputs][kFields];    // weight, target, terminal weight, limit weight, lower and upper limit of each output
  Array cost;                        // [B]
  Array grad_action;                 // [B, Ha, D] of the cost's type, or none
  Array grad_ends[kEnds];            // [B, D] each, double, not summed over a pool; or none
};

// Writes cost and gradients.
void quadratic_cost(const CostCall& call, int threads);

// Writes the gradient of dt in the shape of dt, from everything else; the outputs of the call are their gradients.
void dt_gradient(const Call& call, const Array& result, int threads);

// The parts that other calls have, too.

void expect_action(const Array& action);

struct Sizes {
  int64_t batch, actions, dof, rows;
  char type;  // of the action
};

// Checks for all calls: sizes by the action, dt, start and goal; their type is the action's, or any real one with
// `any_type`.
struct Checked : Sizes {
  explicit Checked(const Call& call, bool any_type = false);
  Checked(const Call& call, const Sizes& sizes, bool any_type);

  StepLengths dt;
  PickedRows picked[2];
};

// Outputs, or their gradients, which may be missing.
void expect_outputs(const Call& call, const Sizes& sizes, const char* name, bool all);

template <class Scalar>
Problem<Scalar> problem_of(const Call& call, const Checked& checked) {
  Problem<Scalar> problem{.map = call.map, .actions = checked.actions, .dof = checked.dof, .action = call.action.as<Scalar>()};
  if (call.spline != nullptr) problem.spline = call.spline->shape(checked.actions, call.has_goal);
  for (int k = 0; k < kEnds; ++k) problem.end[k] = call.ends[k].as<Scalar>();
  std::copy_n(checked.picked, 2, problem.picked);
  problem.dt = checked.dt;
  for (int k = 0; k < kOutputs; ++k) problem.output[k] = call.outputs[k].as<Scalar>();
  problem.truncate_terminal = call.truncate_terminal;
  return problem;
}

template <class Function>
void with_scalar(char type, Function&& function) {
  if (type == 'f') {
    function(0.0F);
  } else {
    function(0.0);
  }
}

// Memory of a thread that is kept for its next call.
inline double* grown(std::vector<double>& memory, int64_t elements) {
  if (memory.size() < static_cast<size_t>(elements)) memory.resize(static_cast<size_t>(elements));
  return memory.data();
}

}  // namespace traj_integrator
