// Motions as in `motion.py`, steps on them, the interpolant of rows, and the way to a plan.
#pragma once

namespace traj_integrator::execution {

constexpr long kSize = 6;  // degree + 1 of a controller's polynomials
constexpr long kOrders = 4;       // position, velocity, acceleration, jerk

struct Knots {
  const double* times;  // [count + 1], s
  long count;           // of pieces

  double step(long piece) const { return times[piece + 1] - times[piece]; }
};

// Polynomial pieces: coefficients [count, kSize, dof] of powers of the time since a piece began.
struct Pieces {
  const double* coefficients;
  Knots knots;
  long dof;

  const double* at(long piece) const { return coefficients + piece * kSize * dof; }
};

struct State {
  double position, velocity, acceleration;

  State operator+(const State& other) const {
    return {position + other.position, velocity + other.velocity, acceleration + other.acceleration};
  }
  State operator*(double by) const { return {position * by, velocity * by, acceleration * by}; }
  double dot(const State& other) const {
    return position * other.position + velocity * other.velocity + acceleration * other.acceleration;
  }
};

// What a jerk of 1 adds to the state in one interval.
struct Interval {
  double cube, square, step;

  explicit Interval(double h) : cube(h * h * h / 6), square(h * h / 2), step(h) {}
  State after(const State& x, double jerk) const {
    return {x.position + step * x.velocity + square * x.acceleration + cube * jerk,
            x.velocity + step * x.acceleration + square * jerk, x.acceleration + step * jerk};
  }
  // The transposed map of a costate.
  State before(const State& p) const {
    return {p.position, step * p.position + p.velocity, square * p.position + step * p.velocity + p.acceleration};
  }
  double of_jerk(const State& p) const { return cube * p.position + square * p.velocity + step * p.acceleration; }
};

// pieces.cpp

// Makes coefficients [kSize, dof] those of powers of the time since `by` later.
void shift(double* coefficients, double by, long dof = 1);

// Coefficients [kSize] of one joint between two times: of the piece in their middle, at rest after the end. `piece`
// is that one, or one before it, which becomes that one.
void cut(const Pieces& motion, long joint, double begin, double end, long& piece, double* out);

// Position and derivatives of a piece, the first `orders` of them, a time after its begin: out [orders, dof], `plane` apart.
void evaluate(const Pieces& motion, long piece, double time, long orders, double* out, long plane);

// Position, velocity, acceleration and jerk, or the first of them, at times [count]: out [orders, count, dof]. A knot
// belongs to the piece that begins there; from the last one on the motion rests.
void states_at(const Pieces& motion, const double* times, long count, long orders, double* out);

// Positions, velocities and accelerations [kPointOrders, count + 1, dof] at times next to knots, of the piece that begins
// there; at the last one of the last piece, and after a brief piece of that: where the acceleration jumps, the longer piece
// shows it less. What sums leave of 0 is 0.
constexpr long kPointOrders = 3;
void points(const Pieces& motion, const double* times, bool rests, double* out);

// Coefficients [count, kSize, dof] of a controller's interpolation between states [orders, count + 1, dof]: positions and
// perhaps velocities and accelerations. What lower degrees leave of them is not written.
void between(const double* steps, long count, long dof, long orders, const double* states, double* out);

// Velocities [knots.count + 1, dof] at the knots of the C2 cubic spline through rows of the same shape, given the first
// and last one, [dof].
void spline(const Knots& knots, const double* rows, long dof, const double* first, const double* last, double* velocities);

// Widens ranges [2, kOrders, dof], least and greatest values of the derivatives, to contain those of a motion; returns
// whether it had to.
bool widen(const Pieces& motion, double* ranges);

// Coefficients [kSize] of the quintic that grows from nothing to a state in `span` seconds.
void grow(double span, const State& to, double* out);

// joints.cpp

// Unites motions of single joints, of size 6, with knots at whole nanoseconds: `knots` begins with `more` others, and
// has room for three times all; out [.., 6, joints]. Knots that come less than `gap` after another one, or before the
// last, become one with it; in long pieces, others follow those by `beside`. In each interval is the piece in its
// middle, at rest after the end of its motion. Returns the number of intervals.
long unite(const Pieces* motions, long joints, long more, double gap, double beside, double* knots, double* out);

constexpr long kStopPieces = 4;

// Writes the fastest stop of a joint, as knots [kStopPieces + 1] and coefficients [kStopPieces, 6]; returns the number
// of pieces, 0 if there is no stop. An acceleration beyond its own comes back first.
long stop(const State& begin, double most_acceleration, double most_jerk, double* knots, double* coefficients);

// Writes the motion of a joint with jerks [count] for so many seconds each, at whole nanoseconds, to rest: knots
// [count + 1] and coefficients [count, kSize]; returns the number of pieces, 0 if it takes forever. What rounding
// leaves is removed: at the place, or of velocity and acceleration only if that is null.
long profile(State begin, const double* spans, const double* jerks, long count, const double* place, double* knots,
             double* coefficients);

// interpolant.cpp

// All times are in units of the mean step.
struct RowsProblem {
  const double* times;       // [count], of rows, increasing
  Knots knots;               // of the pieces: one between two rows, or two in each of the last two steps if it rests
  const double* rows;        // [count, dof]
  long count, dof;
  bool increments;           // noise is in the means of velocities between rows
  bool rests;                // the last row is exact, and there velocity and acceleration are 0
  const double* most_moved;  // [dof], distance by which a row may move whatever the noise is
};

// Cubic pieces, the first four of coefficients [knots.count, kSize, dof], continuous up to the acceleration, with the
// least sum of squares of distances from rows and of jerk; the sizes of both are those of maximum restricted likelihood.
// Through the rows if that finds no noise, whose standard deviation is [dof].
void interpolate(const RowsProblem& problem, double* coefficients, double* noise);

// tracking.cpp

// The way of a joint to its plan: least squares of a triple integrator whose jerk is constant in each interval.
struct TrackingProblem {
  const double* steps;  // [count], s, positive
  long count;
  const double* weights;     // [count, 3] of the squares of position, velocity and acceleration at ends of steps
  double time_scale;         // s, in which differences go: the unit of time inside; its sixth power is the jerk's weight
  const double* start;       // [3]
  const double *low, *high;  // [4, count]: position, velocity and acceleration at ends of steps, jerk in them
};

// Bounds that are not finite are none; where they cannot be kept, their violation is the least: the sum of excesses, in
// which those of accelerations count 100 times and of jerks 10,000 times as much, all in units of the time scale. Writes
// states [count + 1, 3] and jerks [count]; returns the number of iterations, 0 if no bound is active.
long track(const TrackingProblem& problem, double* states, double* jerks);

// following.cpp

struct FollowProblem {
  Pieces plan;             // from the command on
  bool rests;              // after its end
  bool decelerates;        // joints may slow down faster than they speed up, and so the plan may exceed `bounds`
  double from;             // s, before which the plan does not count
  double time_scale;       // s, in which a difference goes
  const double* start;     // [3, dof], commanded position, velocity and acceleration
  const double* bounds;    // [2, kOrders, dof]: least and greatest position, velocity, acceleration, jerk
  const double* stopping;  // [dof], largest acceleration of a stop
  const long* kinds;       // [2, dof], 0 or 1: the plan keeps the bounds; it is about velocities
};

constexpr long kMoreKnots = 204;  // of a blend, in addition to twice those of its plan

// The blend from a command to a plan, and the rest of the plan: knots and coefficients [.., kSize, dof]; how far bounds
// that a plan exceeds lead away from it, [dof]. Returns the number of pieces; -1 if all joints are on their plan, and 0 if
// one cannot reach it; then the results are undefined.
long follow(const FollowProblem& problem, double* knots, double* coefficients, double* apart);

}  // namespace traj_integrator::execution
