// Whether a motion surely keeps bounds, as `extremes.surely_within` and `control_points_within` say it.
#pragma once

#include "pieces.h"

namespace traj_integrator::execution {

constexpr long kLargestSize = 16;  // of pieces

// Bounds of position, velocity, acceleration and jerk [4, dof]. False where it is close, too.
bool surely_keeps(const Pieces& motion, const double* lows, const double* highs);

}  // namespace traj_integrator::execution
