// The module `_native`: functions on arrays borrowed from Python for one call, any objects with the buffer protocol.
#include <algorithm>
#include <vector>

#include "motions.h"
#include "python_buffer.h"

namespace traj_integrator::execution {
namespace {

// Size of a motion from which on work takes at least as long as another thread waits for its turn.
constexpr int64_t kLarge = 1 << 13;
// Numbers that take as long as one knot of a joint's way to its plan where bounds are active.
constexpr int64_t kKnotNumbers = 16;
// And as one row where noise is looked for.
constexpr int64_t kRowNumbers = 8;

// Does work on so many numbers; other threads go on while there is much: a stop waits for no motion of thousands of points.
template <class Work>
auto aside(int64_t numbers, Work work) {
  return traj_integrator::aside(numbers >= kLarge, work);
}

// Coefficients [N, kSize, D] and knots [N + 1].
Pieces motion_of(const In<3>& coefficients, const In<1>& knots) {
  const long count = coefficients.shape[0], dof = coefficients.shape[2];
  require(count > 0 && coefficients.is({count, kSize, dof}) && dof > 0 && knots.is({count + 1}));
  return {coefficients.begin(), {knots.begin(), count}, dof};
}

void py_spline(In<1> times, In<2> rows, In<1> first, In<1> last, Out<2> out) {
  const long count = times.shape[0] - 1, dof = rows.shape[1];
  require(count > 0 && dof > 0 && rows.is({count + 1, dof}) && first.is({dof}) && last.is({dof}) && out.is({count + 1, dof}));
  aside(count * dof, [&] { spline({times.begin(), count}, rows.begin(), dof, first.begin(), last.begin(), out.begin()); });
}

void py_between(In<1> steps, In<3> states, Out<3> out) {
  const long orders = states.shape[0], count = steps.shape[0], dof = states.shape[2];
  require(orders > 0 && orders <= kPointOrders && states.is({orders, count + 1, dof}) && out.is({count, kSize, dof}));
  between(steps.begin(), count, dof, orders, states.begin(), out.begin());
}

// One range for the whole motion, or one for each piece.
bool py_widen(In<3> coefficients, In<1> knots, Out<4> ranges) {
  const Pieces motion = motion_of(coefficients, knots);
  const long count = ranges.shape[0], pieces = motion.knots.count / std::max(count, 1L);
  require((count == 1 || count == motion.knots.count) && ranges.is({count, 2, kOrders, motion.dof}));
  return aside(motion.knots.count * motion.dof, [&] {
    bool had_to = false;
    for (long k = 0; k < count; ++k) {
      const Pieces part{motion.at(k), {motion.knots.times + k, pieces}, motion.dof};
      had_to |= widen(part, ranges.begin() + k * 2 * kOrders * motion.dof);
    }
    return had_to;
  });
}

void py_shift(In<3> coefficients, In<1> by, Out<3> out) {
  const long count = coefficients.shape[0], dof = coefficients.shape[2];
  require(coefficients.is({count, kSize, dof}) && by.is({count}) && out.is({count, kSize, dof}));
  std::copy_n(coefficients.begin(), out.size(), out.begin());
  for (long k = 0; k < count; ++k) shift(out.begin() + k * kSize * dof, by.begin()[k], dof);
}

void py_states_at(In<3> coefficients, In<1> knots, In<1> times, Out<3> out) {
  const Pieces motion = motion_of(coefficients, knots);
  const long orders = out.shape[0], count = times.shape[0];
  require(orders <= kOrders && out.is({orders, count, motion.dof}));
  aside(out.size(), [&] { states_at(motion, times.begin(), count, orders, out.begin()); });
}

void py_points(In<3> coefficients, In<1> knots, In<1> times, bool rests, Out<3> out) {
  const Pieces motion = motion_of(coefficients, knots);
  require(times.is({knots.shape[0]}) && out.is({kPointOrders, knots.shape[0], motion.dof}));
  aside(out.size(), [&] { points(motion, times.begin(), rests, out.begin()); });
}

// Motions of joints, each with so many pieces: their knots and coefficients, one after the other.
int64_t py_united(Given<const int64_t, 1> pieces, In<1> times, In<3> coefficients, In<1> more, double gap, double beside,
                  Out<1> knots, Out<3> out) {
  const long joints = pieces.shape[0], rows = coefficients.shape[0], all = rows + joints;
  long left = rows;
  for (long joint = 0; joint < joints; ++joint) {
    require(pieces.begin()[joint] > 0 && pieces.begin()[joint] <= left);
    left -= pieces.begin()[joint];
  }
  require(joints > 0 && left == 0 && times.is({all}) && coefficients.is({rows, kSize, 1}));
  require(knots.is({3 * (more.shape[0] + all)}) && out.is({knots.shape[0] - 1, kSize, joints}));
  std::vector<Pieces> motions;
  const double *time = times.begin(), *piece = coefficients.begin();
  for (long joint = 0; joint < joints; ++joint) {
    const long count = pieces.begin()[joint];
    motions.push_back({piece, {time, count}, 1});
    time += count + 1, piece += count * kSize;
  }
  std::copy_n(more.begin(), more.shape[0], knots.begin());
  return unite(motions.data(), joints, more.shape[0], gap, beside, knots.begin(), out.begin());
}

// 0 pieces if a joint cannot stop.
int64_t py_stop(In<2> states, In<1> acceleration, In<1> jerk, double gap, double beside, Out<1> knots, Out<3> out) {
  constexpr long kKnots = kStopPieces + 1;
  const long joints = states.shape[1], most = 3 * joints * kKnots;
  require(joints > 0 && states.is({3, joints}) && acceleration.is({joints}) && jerk.is({joints}));
  require(knots.is({most}) && out.is({most - 1, kSize, joints}));
  std::vector<double> times(joints * kKnots), coefficients(joints * kStopPieces * kSize);
  std::vector<Pieces> motions;
  for (long joint = 0; joint < joints; ++joint) {
    const double* const from = states.begin() + joint;
    double *const own = &times[joint * kKnots], *const pieces = &coefficients[joint * kStopPieces * kSize];
    const State begin{from[0], from[joints], from[2 * joints]};
    const long count = stop(begin, acceleration.begin()[joint], jerk.begin()[joint], own, pieces);
    if (count == 0) return 0;
    motions.push_back({pieces, {own, count}, 1});
  }
  return unite(motions.data(), joints, 0, gap, beside, knots.begin(), out.begin());
}

// 0 pieces if it takes forever.
int64_t py_profile(In<1> begin, In<1> spans, In<1> jerks, double place, Out<1> knots, Out<3> out) {
  const long count = spans.shape[0];
  require(count > 0 && begin.is({3}) && jerks.is({count}) && knots.is({count + 1}) && out.is({count, kSize, 1}));
  const State state{begin.begin()[0], begin.begin()[1], begin.begin()[2]};
  return profile(state, spans.begin(), jerks.begin(), count, &place, knots.begin(), out.begin());
}

void py_interpolate(In<1> times, In<1> knots, In<2> rows, bool increments, bool rests, In<1> most_moved, Out<3> out,
                    Out<1> noise) {
  const long count = times.shape[0], dof = rows.shape[1], pieces = count - 1 + (rests ? std::min(count - 1, 2L) : 0);
  require(count > 1 && dof > 0 && knots.is({pieces + 1}) && rows.is({count, dof}) && most_moved.is({dof}));
  require(out.is({pieces, kSize, dof}) && noise.is({dof}));
  const RowsProblem problem{times.begin(), {knots.begin(), pieces}, rows.begin(), count, dof, increments, rests,
                            most_moved.begin()};
  aside(kRowNumbers * count * dof, [&] { interpolate(problem, out.begin(), noise.begin()); });
}

int64_t py_track(In<1> steps, In<2> weights, double time_scale, In<1> start, In<2> low, In<2> high, Out<2> states, Out<1> jerks) {
  const long count = steps.shape[0];
  require(count > 0 && weights.is({count, 3}) && start.is({3}) && low.is({kOrders, count}) && high.is({kOrders, count}));
  require(states.is({count + 1, 3}) && jerks.is({count}));
  const TrackingProblem problem{steps.begin(), count, weights.begin(), time_scale, start.begin(), low.begin(), high.begin()};
  return track(problem, states.begin(), jerks.begin());
}

int64_t py_follow(In<3> coefficients, In<1> given, bool rests, bool decelerates, double from, double time_scale, In<2> start,
                  In<3> bounds, In<1> stopping, Given<const int64_t, 2> kinds, Out<1> knots, Out<3> out, Out<1> apart) {
  const Pieces plan = motion_of(coefficients, given);
  const long most = 2 * plan.knots.count + kMoreKnots, dof = plan.dof;
  require(start.is({3, dof}) && bounds.is({2, kOrders, dof}) && stopping.is({dof}) && kinds.is({2, dof}));
  require(knots.is({most}) && out.is({most - 1, kSize, dof}) && apart.is({dof}));
  const FollowProblem problem{plan, rests, decelerates, from, time_scale, start.begin(), bounds.begin(), stopping.begin(),
                              kinds.begin()};
  return aside(kKnotNumbers * plan.knots.count * dof, [&] { return follow(problem, knots.begin(), out.begin(), apart.begin()); });
}

PyMethodDef methods[] = {
    method<py_between>("between", "A controller's interpolation between states."),
    method<py_spline>("spline", "Velocities of the C2 cubic spline through positions."),
    method<py_widen>("widen", "Widens ranges of the derivatives to those of a motion or its pieces; whether it had to."),
    method<py_shift>("shift", "Pieces that begin at other times."),
    method<py_states_at>("states_at", "Position, velocity, acceleration and jerk at times."),
    method<py_points>("points", "Position, velocity and acceleration of points at knots."),
    method<py_united>("united", "Motions of single joints as one of all joints."),
    method<py_stop>("stop", "The fastest stops of all joints as one motion."),
    method<py_profile>("profile", "The motion of a joint to rest at a place by given jerks."),
    method<py_interpolate>("interpolate", "The smooth motion near rows."),
    method<py_track>("track", "The way of joints to their plan within bounds."),
    method<py_follow>("follow", "The blend from a command to a plan within bounds, and the rest of the plan."),
    {nullptr, nullptr, 0, nullptr},
};

PyModuleDef definition = {PyModuleDef_HEAD_INIT, "_native", "Compiled steps of motions.", -1, methods,
                          nullptr, nullptr, nullptr, nullptr};

}  // namespace
}  // namespace traj_integrator::execution

PyMODINIT_FUNC PyInit__native() { return PyModule_Create(&traj_integrator::execution::definition); }
