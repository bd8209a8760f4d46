// Whether a motion surely keeps bounds, like `extremes.surely_within` and `control_points_within`.
#pragma once

#include "pieces.h"

namespace traj_integrator::execution {

constexpr long kLargestSize = 16;  // of pieces

// Bounds of position, velocity, acceleration and jerk [4, dof]. Also false in close cases.
bool surely_keeps(const Pieces& motion, const double* lows, const double* highs);

}  // namespace traj_integrator::execution
