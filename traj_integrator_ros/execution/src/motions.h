// Motions as in `motion.py`, and steps on them.
#pragma once

namespace traj_integrator::execution {

constexpr long kLargestSize = 6;  // degree + 1 of a controller's polynomials
constexpr long kOrders = 4;       // position, velocity, acceleration, jerk

struct Knots {
  const double* times;  // [count + 1], s
  long count;           // of pieces

  double step(long piece) const { return times[piece + 1] - times[piece]; }
};

// Polynomial pieces: coefficients [count, size, dof] of powers of the time since a piece began.
struct Pieces {
  const double* coefficients;
  Knots knots;
  long size;  // degree + 1
  long dof;

  const double* at(long piece) const { return coefficients + piece * size * dof; }
};

// pieces.cpp

// Makes coefficients [size, dof] those of powers of the time since `by` later.
void shift(double* coefficients, long size, long dof, double by);

// Adds a polynomial [size, dof] to pieces [count] of its size that begin at times of its own.
void add(const double* polynomial, long size, long dof, const double* times, long count, double* coefficients);

// Position, velocity, acceleration and jerk, or the first of them, in which the last piece ends: out [orders, dof].
void end_of(const Pieces& motion, long orders, double* out);

// The same at times [count]: out [orders, count, dof]. A knot belongs to the piece that begins there; from the last one
// on the motion rests.
void states_at(const Pieces& motion, const double* times, long count, long orders, double* out);

// The nearest whole nanoseconds to the knots, and states there: out [3, knots.count + 1, dof]. With `ends_pieces`,
// points after short pieces have the states in which these end.
void points(const Pieces& motion, bool ends_pieces, bool rests, long* time_ns, double* out);

// Coefficients [knots.count, 4, dof] of the C2 cubic spline through rows [knots.count + 1, dof], whose first velocity
// [dof] is open if that is null.
void spline(const Knots& knots, const double* rows, long dof, const double* velocity, bool rests, double* coefficients);

// extremes.cpp

// Widens ranges [2, kOrders, dof], least and greatest values of the derivatives, to contain those of a motion; returns
// whether it had to.
bool widen(const Pieces& motion, double* ranges);

// joints.cpp

// Writes motions of single joints, of size 6, at other knots, out [knots.count, 6, joints]: for each interval the piece
// in its middle, at rest after the end of its motion.
void place(const Pieces* motions, long joints, const Knots& knots, double* out);

// The increasing times that several motions have as knots, at whole nanoseconds: sorts `times` [count] in place, without
// those that come less than `gap` after another one, or before the last. In long pieces, others follow those that became
// one by `beside`. Returns how many there are then, at most three times as many.
long united_knots(double* times, long count, double gap, double beside);

// The fastest way to rest.
struct StopProfile {
  static constexpr long kPieces = 4;
  double spans[kPieces], jerks[kPieces];

  bool ends() const;  // within 1e9 s
};

// From a velocity and an acceleration, within bounds; an acceleration beyond its own comes back first.
StopProfile stop_profile(double velocity, double acceleration, double most_acceleration, double most_jerk);

struct ProfileEnd {
  double duration;  // s; NaN: the sum of the spans
  const double* state;
  bool velocity_only;
};

// Writes a time-optimal profile, spans and jerks [count] from a state [3] on, as knots [count + 1] and coefficients
// [count, 6]; returns how many pieces have a length.
long pieces_of_profile(const double* spans, const double* jerks, long count, const double* begin, const ProfileEnd& end,
                       double* knots, double* coefficients);

}  // namespace traj_integrator::execution
