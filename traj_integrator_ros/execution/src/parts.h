// Parts of motions, and motions of parts, as in `motion.py`.
#pragma once

#include "pieces.h"

namespace traj_integrator::execution {

// Writes the rest of a motion from a time on, s, which is within it, as a motion of its own: knots and coefficients of
// as many pieces as it returns. If less than `sliver`, s, is left of a piece, the next one begins earlier.
long from_time(const Pieces& motion, double time, double sliver, double* knots, double* coefficients);

// Writes a motion, and the next from its end on, as one with pieces [size, dof].
void then(const Pieces& motion, const Pieces& next, long size, double* knots, double* coefficients);

}  // namespace traj_integrator::execution
