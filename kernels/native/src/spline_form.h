// What control points and states weigh in the rows of a spline: the tables of `splines/weights.py`.
#pragma once

#include <cstdint>
#include <vector>

#include "problem.h"

namespace traj_integrator {

// What turns control points into rows; `splines/form.py` has the words.
struct SplineForm {
  int64_t degree;
  int64_t steps;                      // rows for each segment
  int64_t head;                       // extended control points that carry a state
  bool ignores_last;                  // before a goal
  std::vector<double> weights;        // [steps + 1, 4 degree - 2]
  std::vector<double> state_weights;  // [head, 4]

  // Of degree 3 to 5, "tight" or as cuRobo has it. Throws a Misfit.
  SplineForm(int64_t degree, int64_t steps, bool is_curobo);

  int64_t rows(int64_t points) const { return (points + head) * steps + 1; }
  // The number of control points that give so many rows.
  int64_t points(int64_t rows) const { return (rows - 1) / steps - head; }
  // What the loops need to know of splines with `points` control points; the form has to outlive it.
  SplineShape shape(int64_t points, bool has_goal) const;
};

}  // namespace traj_integrator
