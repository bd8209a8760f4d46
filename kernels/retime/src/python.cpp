// The module `_native`: retiming of arrays that are borrowed from Python for one call.
#include <algorithm>
#include <atomic>
#include <cstdint>

#include "parallel.h"
#include "python_buffer.h"
#include "trajectory.h"

namespace traj_integrator::retiming {
namespace {

// PLACES of gradient.py: room for each row of a path that turns back. The 8 samples of a piece show at most 4 turns, between which
// there are at most 16 places (folds.cpp).
constexpr int64_t kPlaces = 80;

// Calls task(0) to task(count - 1), each once; a thread takes the next one as soon as it has done one.
template <class Task>
void on_threads(int64_t count, int64_t threads, const Task& task) {
  std::atomic<int64_t> next = 0;
  const auto work = [&](int64_t, int64_t) {
    for (int64_t k; (k = next.fetch_add(1)) < count;) task(k);
  };
  parallel_for(0, std::min(threads, count), 1, static_cast<int>(threads), work);
}

// The part of an array [B, ..] that belongs to one trajectory, or an array [1, ..] shared by all.
template <class Number, int kDims, bool kMayLack>
Number* row(const Given<Number, kDims, kMayLack>& array, int64_t b) {
  if (!array.given()) return nullptr;
  return array.begin() + (array.shape[0] == 1 ? 0 : b * (array.size() / array.shape[0]));
}

template <class Number, int kDims, bool kMayLack>
void write(const std::vector<Number>& from, const Given<Number, kDims, kMayLack>& to, int64_t b) {
  std::copy(from.begin(), from.end(), row(to, b));
}

// B paths of W rows of D joints; `info` [B, 6]: status, points, unchanged, iterations, rounds, points of the gradient;
// `scalars` [B, 5]: duration, largest start speed, three ratios; then P points, and of the third order G points of the
// gradient.
void py_retime(In<3> position, Maybe<3> velocity, Maybe<3> acceleration, Maybe<2> knots, In<2> most_velocity, In<2> lowest,
               In<2> highest, In<2> most_jerk, In<2> ends, Maybe<1> durations, Integers<2> infos, Out<2> scalars,
               Out<2> times, Out<3> positions, Out<3> velocities, Out<3> accelerations, Out<2> row_times,
               Out<3> segment_ratio, Integers<3> segment_joint, Given<double, 4, true> adjoint,
               Given<double, 3, true> phase, Given<double, 3, true> by_limits, Given<int64_t, 2, true> pieces,
               Given<int64_t, 2, true> knot_of_row, Given<double, 3, true> passed, int64_t order, int64_t intervals,
               bool slow_only, bool hold, int64_t threads) {
  const int64_t batch = position.shape[0], rows = position.shape[1], dof = position.shape[2];
  const int64_t most = times.shape[1], room = adjoint.given() ? adjoint.shape[1] : 0;
  const Options options{.order = order, .intervals = intervals, .slow_only = slow_only, .hold = hold};
  const auto shared = [batch](const Array& array) { return !array.given() || array.shape[0] == 1 || array.shape[0] == batch; };
  require(velocity.is({batch, rows, dof}) && acceleration.is({batch, rows, dof}) && knots.is({-1, rows}) && shared(knots));
  for (const In<2>& bound : {most_velocity, lowest, highest, most_jerk}) require(bound.is({-1, dof}) && shared(bound));
  require(ends.is({batch, 4}) && durations.is({batch}) && infos.is({batch, 6}) && scalars.is({batch, 5}));
  require(times.is({batch, most}) && row_times.is({batch, rows}));
  for (const Out<3>& written : {positions, velocities, accelerations}) require(written.is({batch, most, dof}));
  require(segment_ratio.is({batch, rows - 1, 3}) && segment_joint.is({batch, rows - 1, 3}));
  require(adjoint.is({batch, room, 3, dof}) && phase.is({batch, room, 4}) && by_limits.is({batch, 4, dof}));
  require(pieces.is({batch, room}) && knot_of_row.is({batch, rows}) && passed.is({batch, kPlaces * rows, 3}));
  for (const Array& each : {Array(phase), Array(by_limits), Array(pieces), Array(knot_of_row), Array(passed)}) {
    require(each.given() == adjoint.given());
  }
  require(rows > 1 && dof > 0 && intervals >= rows - 1 && most >= options.most_points(rows));
  require(slow_only == knots.given() && (slow_only || !velocity.given()));
  require(velocity.given() || !acceleration.given());
  const auto retime_one = [&](int64_t b) {
    thread_local Retimer retimer;
    const PathRows path{rows, dof, row(position, b), row(velocity, b), row(acceleration, b), row(knots, b), options.slow_only};
    const double* const jerk = order == 3 ? row(most_jerk, b) : nullptr;
    const Limits limits(dof, {row(most_velocity, b), row(lowest, b), row(highest, b), jerk});
    const double* const end = row(ends, b);
    Options own = options;
    if (durations.given()) own.duration = *row(durations, b);
    const Status status = retimer.retime(path, limits, {end[0], end[1], end[2], end[3]}, own);
    const Played& played = retimer.played;
    int64_t* const info = row(infos, b);
    double* const numbers = row(scalars, b);
    info[0] = static_cast<int64_t>(status);
    info[2] = retimer.unchanged;
    numbers[0] = retimer.duration;
    numbers[1] = retimer.largest_start_speed;
    write(played.segment_ratio, segment_ratio, b);
    write(played.segment_joint, segment_joint, b);
    if (!has_motion(status) && status != Status::kStill) return;
    info[1] = static_cast<int64_t>(played.times.size());
    info[3] = retimer.iterations;
    info[4] = retimer.rounds;
    std::copy_n(played.ratio, 3, numbers + 2);
    write(played.times, times, b);
    write(played.position, positions, b);
    write(played.velocity, velocities, b);
    write(played.acceleration, accelerations, b);
    write(played.row_times, row_times, b);
    if (status == Status::kStill || !adjoint.given() || retimer.third.gradient_points() > room) return;
    info[5] = retimer.third.gradient_points();
    retimer.third.gradient({row(adjoint, b), row(phase, b), row(pieces, b), row(by_limits, b)});
    write(retimer.path.spline_knot_of_row(), knot_of_row, b);
    write(retimer.path.passed(), passed, b);
  };
  aside(true, [&] { on_threads(batch, threads, retime_one); });
}

PyMethodDef methods[] = {
    method<py_retime>("retime", "Times of paths under limits."),
    {nullptr, nullptr, 0, nullptr},
};

PyModuleDef definition = {PyModuleDef_HEAD_INIT, "_native", "Retiming in C++.", -1, methods, nullptr, nullptr, nullptr, nullptr};

}  // namespace
}  // namespace traj_integrator::retiming

PyMODINIT_FUNC PyInit__native() { return PyModule_Create(&traj_integrator::retiming::definition); }
