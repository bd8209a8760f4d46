// Pieces of a motion at other knots, as in `tracks.py`.
#pragma once

#include "pieces.h"

namespace traj_integrator::execution {

constexpr long kPlacedSize = 6;

// Writes some joints of a motion to `out` [knots.count, kPlacedSize, dof]: for each interval the piece in its middle, at
// rest after the end of the motion. `columns`: which of its joints, and where in `out` they go.
void place(const Pieces& motion, const Knots& knots, const long* columns, const long* places, long count, long dof,
           double* out);

}  // namespace traj_integrator::execution
