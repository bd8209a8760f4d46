// The motion through positions, as `rows.motion_of_positions` has it: C2 cubic spline and accelerations that fade.
#pragma once

#include "pieces.h"

namespace traj_integrator::execution {

struct Positions {
  Knots knots;
  const double* rows;  // [count + 1, dof]: the start's, then where each step leads
  long dof;
};

struct Ends {
  const double* velocity;      // at the start [dof]; null: as the first pieces say
  const double* acceleration;  // at the start [dof]; null: not known
  bool rests;                  // at the end
};

// Size of the pieces: 4, or 6 where an acceleration fades.
int piece_size(const Ends& ends, double fade_time);

// Writes coefficients [count, size, dof]. Steps are the differences of the knots.
void motion_through(const Positions& positions, const Ends& ends, double fade_time, double* coefficients);

}  // namespace traj_integrator::execution
