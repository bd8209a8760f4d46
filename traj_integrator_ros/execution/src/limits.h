// Whether a motion surely keeps bounds, in few operations: in close cases it does not.
#pragma once

#include "pieces.h"

namespace traj_integrator::execution {

constexpr long kLargestSize = 16;  // of pieces

// Bounds of position, velocity, acceleration and jerk [4, dof]. Also false in close cases.
bool surely_keeps(const Pieces& motion, const double* lows, const double* highs);

}  // namespace traj_integrator::execution
