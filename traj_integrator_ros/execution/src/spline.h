// The motion through positions, as in `rows.motion_of_positions`: C2 cubic spline and accelerations that fade.
#pragma once

#include "pieces.h"

namespace traj_integrator::execution {

struct Positions {
  Knots knots;
  const double* rows;  // [count + 1, dof]: start position, then that at the end of each step
  long dof;
};

struct Ends {
  const double* velocity;      // at the start [dof]; null: not clamped
  const double* acceleration;  // at the start [dof]; null: unknown
  bool rests;                  // at the end
};

// Size of the pieces: 4, or 6 where an acceleration fades.
int piece_size(const Ends& ends, double fade_time);

// Writes coefficients [count, size, dof]. Steps are the differences of the knots.
void motion_through(const Positions& positions, const Ends& ends, double fade_time, double* coefficients);

}  // namespace traj_integrator::execution
