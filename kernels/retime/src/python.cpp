// The module `_native`: retiming of arrays that are borrowed from Python for one call.
#include <algorithm>
#include <atomic>
#include <cstdint>

#include "parallel.h"
#include "python_buffer.h"
#include "trajectory.h"

namespace traj_integrator::retiming {
namespace {

constexpr int64_t kAny = ArrayArguments::kAny;
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
template <class Number = double>
Number* row(const Array& array, int64_t b) {
  if (!array.given()) return nullptr;
  return array.as<Number>() + (array.shape[0] == 1 ? 0 : b * (array.size() / array.shape[0]));
}

template <class Number>
void write(const std::vector<Number>& from, const Array& to, int64_t b) {
  std::copy(from.begin(), from.end(), row<Number>(to, b));
}

// retime(position, velocity, acceleration [B, W, D], knots [1 or B, W], limits of four kinds [1 or B, D], ends [B, 4], duration [B];
//        info [B, 6]: status, points, unchanged, iterations, rounds, points of the gradient; scalars [B, 5]: duration, largest
//        start speed, three ratios; times [B, P]; position, velocity, acceleration [B, P, D]; row_times [B, W]; segment_ratio,
//        segment_joint [B, W - 1, 3]; of the third order adjoint [B, G, 3, D], phase [B, G, 4], by_limits [B, 4, D],
//        piece [B, G], knot_of_row [B, W], passed [B, kPlaces W, 3]; order, intervals, slow_only, hold, threads)
PyObject* py_retime(ArrayArguments& given) {
  const auto written = [&](std::initializer_list<int64_t> shape, char type = 'd') { return given.array(shape, type, true); };
  const Array position = given.array({kAny, kAny, kAny});
  const int64_t batch = position.shape[0], rows = position.shape[1], dof = position.shape[2];
  const Array velocity = given.optional({batch, rows, dof}), acceleration = given.optional({batch, rows, dof});
  const Array knots = given.optional({kAny, rows});
  given.require(!knots.given() || knots.shape[0] == 1 || knots.shape[0] == batch);
  Array bounds[kKinds];
  for (Array& bound : bounds) {
    bound = given.array({kAny, dof});
    given.require(bound.shape[0] == 1 || bound.shape[0] == batch);
  }
  const Array ends = given.array({batch, 4}), durations = given.optional({batch});
  const Array infos = written({batch, 6}, 'l'), scalars = written({batch, 5}), times = written({batch, kAny});
  const int64_t most = times.shape[1];
  const Array positions = written({batch, most, dof}), velocities = written({batch, most, dof});
  const Array accelerations = written({batch, most, dof}), row_times = written({batch, rows});
  const Array segment_ratio = written({batch, rows - 1, 3}), segment_joint = written({batch, rows - 1, 3}, 'l');
  const Array adjoint = given.optional({batch, kAny, 3, dof}, 'd', true);
  const int64_t room = adjoint.given() ? adjoint.shape[1] : 0;
  const Array phase = given.optional({batch, room, 4}, 'd', true), by_limits = given.optional({batch, 4, dof}, 'd', true);
  const Array pieces = given.optional({batch, room}, 'l', true), knot_of_row = given.optional({batch, rows}, 'l', true);
  const Array passed = given.optional({batch, kPlaces * rows, 3}, 'd', true);
  for (const Array& each : {phase, by_limits, pieces, knot_of_row, passed}) given.require(each.given() == adjoint.given());
  Options options{.order = given.integer(), .intervals = given.integer(), .slow_only = given.flag(), .hold = given.flag()};
  const int64_t threads = given.integer();
  given.require(rows > 1 && dof > 0 && options.intervals >= rows - 1 && most >= options.most_points(rows));
  given.require(options.slow_only == knots.given() && (options.slow_only || !velocity.given()));
  given.require(velocity.given() || !acceleration.given());
  if (!given.fit()) return nullptr;
  const auto retime_one = [&](int64_t b) {
    thread_local Retimer retimer;
    const PathRows path{rows, dof, row(position, b), row(velocity, b), row(acceleration, b), row(knots, b), options.slow_only};
    const double* const jerk = options.order == 3 ? row(bounds[kJerk], b) : nullptr;
    const Limits limits(dof, {row(bounds[kVelocity], b), row(bounds[kLowest], b), row(bounds[kHighest], b), jerk});
    const double* const end = row(ends, b);
    Options own = options;
    if (durations.given()) own.duration = *row(durations, b);
    const Status status = retimer.retime(path, limits, {end[0], end[1], end[2], end[3]}, own);
    const Played& played = retimer.played;
    int64_t* const info = row<int64_t>(infos, b);
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
    retimer.third.gradient({row(adjoint, b), row(phase, b), row<int64_t>(pieces, b), row(by_limits, b)});
    write(retimer.path.spline_knot_of_row(), knot_of_row, b);
    write(retimer.path.passed(), passed, b);
  };
  Py_BEGIN_ALLOW_THREADS;
  on_threads(batch, threads, retime_one);
  Py_END_ALLOW_THREADS;
  Py_RETURN_NONE;
}

PyMethodDef methods[] = {
    method_of_arrays<py_retime>("retime", "Times of paths under limits."),
    {nullptr, nullptr, 0, nullptr},
};

PyModuleDef definition = {PyModuleDef_HEAD_INIT, "_native", "Retiming in C++.", -1, methods, nullptr, nullptr, nullptr, nullptr};

}  // namespace
}  // namespace traj_integrator::retiming

PyMODINIT_FUNC PyInit__native() { return PyModule_Create(&traj_integrator::retiming::definition); }
