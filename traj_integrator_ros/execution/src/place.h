// Pieces of a motion at other knots, as in `tracks.py`.
#pragma once

#include "pieces.h"

namespace traj_integrator::execution {

constexpr long kPlacedSize = 6;

// Writes some joints of a motion to `out` [knots.count, kPlacedSize, dof]: for each interval the piece in its middle, at
// rest after the end of the motion. `columns`: which of its joints, and where in `out` they go.
void place(const Pieces& motion, const Knots& knots, const long* columns, const long* places, long count, long dof,
           double* out);

// The increasing times that several motions have as knots, at whole nanoseconds: sorts `times` [count] in place, without
// those that come less than `gap` after another one, or before the last; returns how many are left.
long united_knots(double* times, long count, double gap);

}  // namespace traj_integrator::execution
