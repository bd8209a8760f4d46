// Exact extremes of the polynomial pieces of a motion, as in `reference.py`.
#pragma once

#include "pieces.h"

namespace traj_integrator::execution {

constexpr long kLargestExtremesSize = 6;  // degree + 1 of what controllers play

// Least and greatest position, velocity, acceleration and jerk of each joint: out [2, 4, dof].
void extremes(const Pieces& motion, double* out);

}  // namespace traj_integrator::execution
