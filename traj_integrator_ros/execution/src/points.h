// States of a motion at any times, its pieces about other times, and pieces between states, as in `motion.py`.
#pragma once

#include "pieces.h"

namespace traj_integrator::execution {

// Writes position, velocity, acceleration and jerk, or the first of them, at times [count]: out [orders, count, dof]. A
// knot belongs to the piece that begins there; from the last one on the motion rests.
void states_at(const Pieces& motion, const double* times, long count, long orders, double* out);

// See the constants of `points.py`.
struct PointRules {
  double no_time, brief, shorter, nothing, rounding;
};

// Writes the nearest whole nanoseconds to the knots, and states there: out [3, knots.count + 1, dof]. With `ends_pieces`,
// points after short pieces have the states in which these end.
void points(const Pieces& motion, const PointRules& rules, bool ends_pieces, bool rests, long* time_ns, double* out);

// Makes coefficients [size, dof] those of powers of the time since `by` later.
void shift(double* coefficients, long size, long dof, double by);

// Writes the quintics [knots.count, 6, dof] between positions, velocities and accelerations [3, knots.count + 1, dof].
void quintics(const Knots& knots, const double* states, long dof, double* coefficients);

// Writes the quintics [knots.count, 6, dof] of the difference of two motions, which fades by a smooth weight from `lack`
// [3, dof] to 0 within a span, s.
void blend(const Pieces& executed, const Pieces& plan, const double* lack, double span, const Knots& knots, double* out);

}  // namespace traj_integrator::execution
