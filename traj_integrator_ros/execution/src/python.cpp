// The module `_native`: functions on arrays borrowed from Python for one call, any objects with the buffer protocol.
//
// Each raises TypeError if an array has another shape or type.
#include <algorithm>
#include <cmath>
#include <cstdint>
#include <cstring>
#include <vector>

#include "interpolant.h"
#include "motions.h"
#include "python_buffer.h"
#include "tracking.h"

namespace traj_integrator::execution {
namespace {

constexpr int64_t kAny = ArrayArguments::kAny;

// Coefficients [N, K + 1, D] and knots [N + 1].
Pieces motion_of(ArrayArguments& given) {
  const Array coefficients = given.array({kAny, kAny, kAny}), knots = given.array({coefficients.shape[0] + 1});
  const long count = coefficients.shape[0], size = coefficients.shape[1], dof = coefficients.shape[2];
  given.require(count > 0 && size > 1 && size <= kLargestSize && dof > 0);
  return {coefficients.as<double>(), {knots.as<double>(), count}, size, dof};
}

PyObject* none() { Py_RETURN_NONE; }

// Size of a motion from which on work takes at least as long as another thread waits for its turn.
constexpr int64_t kLarge = 1 << 13;
// Numbers that take as long as one knot of a joint's way to its plan where bounds are active.
constexpr int64_t kKnotNumbers = 16;
// And as one row where noise is looked for.
constexpr int64_t kRowNumbers = 8;

// Does work on so many numbers; other threads go on while there is much: a stop waits for no motion of thousands of points.
template <class Work>
auto aside(int64_t numbers, Work work) {
  struct Turn {
    PyThreadState* thread;
    ~Turn() {
      if (thread != nullptr) PyEval_RestoreThread(thread);
    }
  };
  const Turn turn{numbers < kLarge ? nullptr : PyEval_SaveThread()};
  return work();
}

PyObject* py_spline(ArrayArguments& given) {
  const Array times = given.array({kAny}), rows = given.array({times.shape[0], kAny});
  const long count = times.shape[0] - 1, dof = rows.shape[1];
  const double* velocity = given.optional({dof}).as<double>();
  const bool rests = given.flag();
  double* out = given.out({count, 4, dof});
  given.require(count > 0 && dof > 0);
  if (!given.fit()) return nullptr;
  aside(count * dof, [&] { spline({times.as<double>(), count}, rows.as<double>(), dof, velocity, rests, out); });
  return none();
}

PyObject* py_widen(ArrayArguments& given) {
  const Pieces motion = motion_of(given);
  double* ranges = given.out({2, kOrders, motion.dof});
  if (!given.fit()) return nullptr;
  return PyBool_FromLong(aside(motion.knots.count * motion.dof, [&] { return widen(motion, ranges); }));
}

PyObject* py_widen_each(ArrayArguments& given) {
  const Pieces motion = motion_of(given);
  const long count = motion.knots.count, size = 2 * kOrders * motion.dof;
  double* ranges = given.out({count, 2, kOrders, motion.dof});
  if (!given.fit()) return nullptr;
  aside(count * motion.dof, [&] {
    for (long k = 0; k < count; ++k) {
      widen({motion.at(k), {motion.knots.times + k, 1}, motion.size, motion.dof}, ranges + k * size);
    }
  });
  return none();
}

PyObject* py_states_at(ArrayArguments& given) {
  const Pieces motion = motion_of(given);
  const bool at_end = given.is_none(), one = given.is_number();
  const double time = one ? given.number() : 0;
  Array times;
  if (!one && !at_end) times = given.array({kAny});
  if (at_end) given.optional({});
  const bool several = times.given();
  const Array out = several ? given.array({kAny, times.shape[0], motion.dof}, 'd', true)
                            : given.array({kAny, motion.dof}, 'd', true);
  given.require(out.shape[0] <= kOrders);
  if (!given.fit()) return nullptr;
  if (at_end) {
    end_of(motion, out.shape[0], out.as<double>());
  } else {
    aside(out.size(), [&] {
      states_at(motion, one ? &time : times.as<double>(), one ? 1 : times.shape[0], out.shape[0], out.as<double>());
    });
  }
  return none();
}

PyObject* py_points(ArrayArguments& given) {
  const Pieces motion = motion_of(given);
  const bool ends_pieces = given.flag(), rests = given.flag();
  const long count = motion.knots.count + 1;
  long* time_ns = given.array({count}, 'l', true).as<long>();
  double* out = given.out({3, count, motion.dof});
  if (!given.fit()) return nullptr;
  aside(count * motion.dof, [&] { points(motion, ends_pieces, rests, time_ns, out); });
  return none();
}

PyObject* py_shift(ArrayArguments& given) {
  const Array piece = given.array({kAny, kAny}, 'd', true);
  const double by = given.number();
  if (!given.fit()) return nullptr;
  shift(piece.as<double>(), piece.shape[0], piece.shape[1], by);
  return none();
}

PyObject* py_add(ArrayArguments& given) {
  const Array polynomial = given.array({kAny, kAny}), times = given.array({kAny});
  const long size = polynomial.shape[0], dof = polynomial.shape[1], count = times.shape[0];
  double* out = given.out({count, size, dof});
  given.require(size > 0);
  if (!given.fit()) return nullptr;
  add(polynomial.as<double>(), size, dof, times.as<double>(), count, out);
  return none();
}

// One joint: a tuple that begins with knots [N + 1] and coefficients [N, kLargestSize, 1].
bool take_track(PyObject* track, BorrowedBuffers<2>& buffers, Pieces& motion) {
  if (!PyTuple_Check(track) || PyTuple_Size(track) < 2) return false;
  Array knots, pieces;
  if (!buffers.take(PyTuple_GetItem(track, 0), knots) || !buffers.take(PyTuple_GetItem(track, 1), pieces)) return false;
  const long count = pieces.shape[0];
  motion = {pieces.as<double>(), {knots.as<double>(), count}, kLargestSize, 1};
  return knots.type == 'd' && pieces.type == 'd' && count > 0 && knots.has_shape({count + 1}) &&
         pieces.has_shape({count, kLargestSize, 1});
}

// Writes `tracks` as one motion, whose most knots are given first; returns the number of its pieces.
PyObject* unite(const std::vector<Pieces>& tracks, long size, double gap, double beside, double* knots, double* out) {
  double* end = knots + size;
  for (const Pieces& track : tracks) end = std::copy_n(track.knots.times, track.knots.count + 1, end);
  const long kept = united_knots(knots, end - knots, gap, beside) - 1;
  place(tracks.data(), tracks.size(), {knots, kept}, out);
  return PyLong_FromLong(kept);
}

PyObject* py_united(ArrayArguments& given) {
  PyObject* list = given.list();
  const Array more = given.array({kAny});
  const double gap = given.number(), beside = given.number();
  const long joints = list == nullptr ? 0 : PyList_Size(list);
  const Array knots = given.array({kAny}, 'd', true);
  double* out = given.out({knots.shape[0] - 1, kLargestSize, joints});
  std::vector<BorrowedBuffers<2>> borrowed(joints);
  std::vector<Pieces> tracks(joints);
  long size = more.shape[0];
  for (long joint = 0; joint < joints && given.fit(); ++joint) {
    given.require(take_track(PyList_GetItem(list, joint), borrowed[joint], tracks[joint]));
    size += tracks[joint].knots.count + 1;
  }
  given.require(joints > 0 && 3 * size == knots.shape[0]);
  if (!given.fit()) return nullptr;
  std::copy_n(more.as<double>(), more.shape[0], knots.as<double>());
  return unite(tracks, more.shape[0], gap, beside, knots.as<double>(), out);
}

PyObject* py_stop(ArrayArguments& given) {
  const Array states = given.array({3, kAny});
  const long joints = states.shape[1];
  const double *acceleration = given.doubles({joints}), *jerk = given.doubles({joints});
  const double gap = given.number(), beside = given.number();
  constexpr long kMost = StopProfile::kPieces + 1;
  double *knots = given.out({3 * joints * kMost}), *out = given.out({3 * joints * kMost - 1, kLargestSize, joints});
  given.require(joints > 0);
  if (!given.fit()) return nullptr;
  constexpr double kRest[3] = {};
  std::vector<double> times(joints * kMost), coefficients(joints * StopProfile::kPieces * kLargestSize);
  std::vector<Pieces> tracks;
  for (long joint = 0; joint < joints; ++joint) {
    const double* const from = states.as<double>() + joint;
    const double begin[3] = {from[0], from[joints], from[2 * joints]};
    const StopProfile profile = stop_profile(begin[1], begin[2], acceleration[joint], jerk[joint]);
    if (!profile.ends() || !std::isfinite(begin[0])) return none();
    double *own = times.data() + joint * kMost, *pieces = coefficients.data() + joint * StopProfile::kPieces * kLargestSize;
    const long count = pieces_of_profile(profile.spans, profile.jerks, StopProfile::kPieces, begin, {NAN, kRest, true}, own, pieces);
    tracks.push_back({pieces, {own, count}, kLargestSize, 1});
  }
  return unite(tracks, 0, gap, beside, knots, out);
}

PyObject* py_pieces_of_profile(ArrayArguments& given) {
  const std::vector<double> profile = given.numbers();
  const double *begin = given.doubles({3}), duration = given.number(), *end = given.doubles({3});
  const bool velocity_only = given.flag();
  const long most = profile.size() / 2;
  double *knots = given.out({most + 1}), *coefficients = given.out({most, kLargestSize, 1});
  given.require(most > 0 && profile.size() % 2 == 0);
  if (!given.fit()) return nullptr;
  const ProfileEnd to{duration, end, velocity_only};
  return PyLong_FromLong(pieces_of_profile(profile.data(), profile.data() + most, most, begin, to, knots, coefficients));
}

PyObject* py_track(ArrayArguments& given) {
  const Array steps = given.array({kAny}), weights = given.array({steps.shape[0], 3, kAny});
  const double jerk_weight = given.number(), time_scale = given.number();
  const Array start = given.array({3, kAny});
  const long count = steps.shape[0], dof = start.shape[1], weighted = weights.shape[2];
  const double *low = given.doubles({4, count, dof}), *high = given.doubles({4, count, dof});
  double *states = given.out({count + 1, 3, dof}), *jerks = given.out({count, dof}), *violation = given.out({dof});
  long* iterations = given.array({dof}, 'l', true).as<long>();
  given.require(count > 0 && dof > 0 && (weighted == 1 || weighted == dof));
  if (!given.fit()) return nullptr;
  const TrackingProblem problem{steps.as<double>(), count, dof, weights.as<double>(), weighted, jerk_weight, time_scale,
                                start.as<double>(), low, high};
  aside(kKnotNumbers * count * dof, [&] { track(problem, {states, jerks, violation, iterations}); });
  return none();
}

PyObject* py_interpolate(ArrayArguments& given) {
  const Array times = given.array({kAny}), rows = given.array({times.shape[0], kAny});
  const long count = times.shape[0], dof = rows.shape[1];
  const bool increments = given.flag(), rests = given.flag();
  const double* most_moved = given.doubles({dof});
  const long pieces = pieces_through(count, rests);
  const RowsResult result{given.out({pieces + 1}), given.out({pieces, 4, dof}), given.out({dof})};
  given.require(count > 1 && dof > 0);
  if (!given.fit()) return nullptr;
  const RowsProblem problem{times.as<double>(), rows.as<double>(), count, dof, increments, rests, most_moved};
  aside(kRowNumbers * count * dof, [&] { interpolate(problem, result); });
  return none();
}

// A number is finite if not all bits of its exponent are set.
template <class Bits>
bool all_finite(const Array& numbers, Bits exponent) {
  const char* from = numbers.as<char>();
  const int64_t size = numbers.size();
  Bits bad = 0;
  for (int64_t i = 0; i < size; ++i) {
    Bits bits;
    std::memcpy(&bits, from + i * sizeof(Bits), sizeof(Bits));
    bad |= (bits & exponent) == exponent;
  }
  return bad == 0;
}

// None if it has no contiguous real numbers.
PyObject* py_all_finite(PyObject*, PyObject* object) {
  BorrowedBuffers<1> buffers;
  Array numbers;
  if (!buffers.take(object, numbers) || !numbers.is_real()) Py_RETURN_NONE;
  return PyBool_FromLong(numbers.type == 'f' ? all_finite<uint32_t>(numbers, 0x7f800000U)
                                             : all_finite<uint64_t>(numbers, 0x7ff0000000000000U));
}

PyMethodDef methods[] = {
    method_of_arrays<py_spline>("spline", "The C2 cubic spline through positions."),
    method_of_arrays<py_widen>("widen", "Widens ranges of the derivatives to those of a motion; whether it had to."),
    method_of_arrays<py_widen_each>("widen_each", "Widens ranges of each piece to those of the piece."),
    method_of_arrays<py_states_at>("states_at", "Position, velocity, acceleration and jerk at times, or at the end."),
    method_of_arrays<py_points>("points", "The points of a motion."),
    method_of_arrays<py_shift>("shift", "A piece about another time, in place."),
    method_of_arrays<py_add>("add", "Adds a polynomial to pieces."),
    method_of_arrays<py_united>("united", "Motions of single joints as one of all joints."),
    method_of_arrays<py_stop>("stop", "The fastest stops of all joints as one motion."),
    method_of_arrays<py_pieces_of_profile>("pieces_of_profile", "Pieces of a time-optimal profile."),
    method_of_arrays<py_interpolate>("interpolate", "The smooth motion near rows."),
    method_of_arrays<py_track>("track", "The way of joints to their plan within bounds."),
    {"all_finite", &py_all_finite, METH_O, "Whether numbers hold neither NaN nor infinity."},
    {nullptr, nullptr, 0, nullptr},
};

PyModuleDef definition = {PyModuleDef_HEAD_INIT, "_native", "Compiled steps of motions.", -1, methods,
                          nullptr, nullptr, nullptr, nullptr};

}  // namespace
}  // namespace traj_integrator::execution

PyMODINIT_FUNC PyInit__native() { return PyModule_Create(&traj_integrator::execution::definition); }
