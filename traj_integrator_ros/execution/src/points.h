// The states at the knots of a motion: `points.points_of` for knots at whole nanoseconds.
#pragma once

#include "pieces.h"

namespace traj_integrator::execution {

// Writes position, velocity and acceleration [3, count + 1, dof]; the last velocity is 0 where it ends at rest.
void states_at_knots(const Pieces& motion, bool ends_at_rest, double* states);

}  // namespace traj_integrator::execution
