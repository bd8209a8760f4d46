// The module `_native`: functions on arrays borrowed from Python for one call, any objects with the buffer protocol.
//
// Each raises TypeError if an array has another shape or type.
#include <algorithm>
#include <cstdint>
#include <cstring>
#include <vector>

#include "extremes.h"
#include "limits.h"
#include "parts.h"
#include "place.h"
#include "points.h"
#include "profile.h"
#include "python_buffer.h"
#include "retreats.h"
#include "spline.h"

namespace traj_integrator::execution {
namespace {

// One array of a call.
class BorrowedArray {
 public:
  // Takes a contiguous array of numbers of one type.
  bool take(PyObject* object, bool writable = false) { return buffers_.take(object, array_, writable) && array_.given(); }
  // Takes an array of doubles of this many dimensions.
  bool take_doubles(PyObject* object, int dims, bool writable = false) {
    return take(object, writable) && type() == 'd' && array_.dims == dims;
  }

  char type() const { return array_.type; }
  long size(int dim) const { return array_.shape[dim]; }
  long size() const { return array_.size(); }
  double* doubles() const { return array_.as<double>(); }
  long* longs() const { return array_.as<long>(); }
  const void* data() const { return array_.data; }

 private:
  BorrowedBuffers<1> buffers_;
  Array array_;
};

PyObject* wrong_arrays() {
  PyErr_SetString(PyExc_TypeError, "arrays: expected contiguous ones of float64, of shapes that belong together");
  return nullptr;
}

// Coefficients [N, K + 1, D] and knots [N + 1].
bool take_motion(PyObject* coefficients, PyObject* knots, BorrowedArray (&borrowed)[2], Pieces& motion) {
  if (!borrowed[0].take_doubles(coefficients, 3) || !borrowed[1].take_doubles(knots, 1)) return false;
  const long count = borrowed[0].size(0), size = borrowed[0].size(1);
  motion = {borrowed[0].doubles(), {borrowed[1].doubles(), count}, size, borrowed[0].size(2)};
  return count > 0 && borrowed[1].size(0) == count + 1 && size > 1 && size <= kLargestSize && motion.dof > 0;
}

// motion_through(knots, rows, velocity, acceleration, rests, fade_time, out) -> None
PyObject* py_motion_through(PyObject*, PyObject* const* args, Py_ssize_t count) {
  BorrowedArray knots, rows, velocity, acceleration, out;
  if (count != 7 || !knots.take_doubles(args[0], 1) || !rows.take_doubles(args[1], 2)) return wrong_arrays();
  const long pieces = knots.size(0) - 1, dof = rows.size(1);
  if (pieces < 1 || dof < 1 || rows.size(0) != pieces + 1) return wrong_arrays();
  Ends ends{nullptr, nullptr, args[4] == Py_True};
  if (args[2] != Py_None) {
    if (!velocity.take_doubles(args[2], 1) || velocity.size(0) != dof) return wrong_arrays();
    ends.velocity = velocity.doubles();
  }
  if (args[3] != Py_None) {
    if (!acceleration.take_doubles(args[3], 1) || acceleration.size(0) != dof) return wrong_arrays();
    ends.acceleration = acceleration.doubles();
  }
  const double fade_time = PyFloat_AsDouble(args[5]);
  if (PyErr_Occurred() != nullptr) return nullptr;
  const int size = piece_size(ends, fade_time);
  if (!out.take_doubles(args[6], 3, true)) return wrong_arrays();
  if (out.size(0) != pieces || out.size(1) != size || out.size(2) != dof) return wrong_arrays();
  motion_through({{knots.doubles(), pieces}, rows.doubles(), dof}, ends, fade_time, out.doubles());
  Py_RETURN_NONE;
}

// surely_keeps(coefficients, knots, lows, highs) -> bool
PyObject* py_surely_keeps(PyObject*, PyObject* const* args, Py_ssize_t count) {
  BorrowedArray borrowed[2], lows, highs;
  Pieces motion;
  if (count != 4 || !take_motion(args[0], args[1], borrowed, motion)) return wrong_arrays();
  for (auto [array, object] : {std::pair{&lows, args[2]}, std::pair{&highs, args[3]}}) {
    if (!array->take_doubles(object, 2) || array->size(0) != 4 || array->size(1) != motion.dof) return wrong_arrays();
  }
  return PyBool_FromLong(surely_keeps(motion, lows.doubles(), highs.doubles()));
}

// states_at(coefficients, knots, times, out) -> None
PyObject* py_states_at(PyObject*, PyObject* const* args, Py_ssize_t count) {
  BorrowedArray borrowed[2], times, out;
  Pieces motion;
  if (count != 4 || !take_motion(args[0], args[1], borrowed, motion)) return wrong_arrays();
  const bool one = PyFloat_Check(args[2]);
  if (!one && !times.take_doubles(args[2], 1)) return wrong_arrays();
  if (!out.take_doubles(args[3], one ? 2 : 3, true) || out.size(0) > 4 || out.size(one ? 1 : 2) != motion.dof) return wrong_arrays();
  if (!one && out.size(1) != times.size(0)) return wrong_arrays();
  const double time = one ? PyFloat_AsDouble(args[2]) : 0;
  states_at(motion, one ? &time : times.doubles(), one ? 1 : times.size(0), out.size(0), out.doubles());
  Py_RETURN_NONE;
}

// end(coefficients, knots, out) -> None
PyObject* py_end(PyObject*, PyObject* const* args, Py_ssize_t count) {
  BorrowedArray borrowed[2], out;
  Pieces motion;
  if (count != 3 || !take_motion(args[0], args[1], borrowed, motion)) return wrong_arrays();
  if (!out.take_doubles(args[2], 2, true) || out.size(0) != 3 || out.size(1) != motion.dof) return wrong_arrays();
  end_of(motion, out.doubles(), out.doubles() + motion.dof, out.doubles() + 2 * motion.dof);
  Py_RETURN_NONE;
}

// from_time(coefficients, knots, time, sliver, knots_out, out) -> count
PyObject* py_from_time(PyObject*, PyObject* const* args, Py_ssize_t count) {
  BorrowedArray borrowed[2], knots, out;
  Pieces motion;
  if (count != 6 || !take_motion(args[0], args[1], borrowed, motion)) return wrong_arrays();
  if (!PyFloat_Check(args[2]) || !PyFloat_Check(args[3])) return wrong_arrays();
  if (!knots.take_doubles(args[4], 1, true) || !out.take_doubles(args[5], 3, true)) return wrong_arrays();
  if (knots.size(0) != motion.knots.count + 1 || out.size() != motion.knots.count * motion.size * motion.dof) return wrong_arrays();
  const double time = PyFloat_AsDouble(args[2]), sliver = PyFloat_AsDouble(args[3]);
  return PyLong_FromLong(from_time(motion, time, sliver, knots.doubles(), out.doubles()));
}

// then(coefficients, knots, of_next, knots_of_next, knots_out, out) -> None
PyObject* py_then(PyObject*, PyObject* const* args, Py_ssize_t count) {
  BorrowedArray borrowed[2], of_next[2], knots, out;
  Pieces motion, next;
  if (count != 6 || !take_motion(args[0], args[1], borrowed, motion) || !take_motion(args[2], args[3], of_next, next)) {
    return wrong_arrays();
  }
  if (!knots.take_doubles(args[4], 1, true) || !out.take_doubles(args[5], 3, true)) return wrong_arrays();
  const long pieces = motion.knots.count + next.knots.count;
  if (knots.size(0) != pieces + 1 || out.size(0) != pieces || out.size(1) != std::max(motion.size, next.size)) return wrong_arrays();
  if (motion.dof != next.dof || out.size(2) != motion.dof) return wrong_arrays();
  then(motion, next, out.size(1), knots.doubles(), out.doubles());
  Py_RETURN_NONE;
}

// points(coefficients, knots, rules, ends_pieces, rests, time_ns, out) -> None
PyObject* py_points(PyObject*, PyObject* const* args, Py_ssize_t count) {
  BorrowedArray borrowed[2], rules, time_ns, out;
  Pieces motion;
  if (count != 7 || !take_motion(args[0], args[1], borrowed, motion) || !rules.take_doubles(args[2], 1)) return wrong_arrays();
  const long points_count = motion.knots.count + 1;
  if (rules.size(0) != 5 || !time_ns.take(args[5], true) || time_ns.type() != 'l') return wrong_arrays();
  if (time_ns.size() != points_count || !out.take_doubles(args[6], 3, true) || out.size(0) != 3) return wrong_arrays();
  if (out.size(1) != points_count || out.size(2) != motion.dof) return wrong_arrays();
  const double* of = rules.doubles();
  points(motion, {of[0], of[1], of[2], of[3], of[4]}, args[3] == Py_True, args[4] == Py_True, time_ns.longs(), out.doubles());
  Py_RETURN_NONE;
}

// shift(coefficients, by) -> None
PyObject* py_shift(PyObject*, PyObject* const* args, Py_ssize_t count) {
  BorrowedArray coefficients;
  if (count != 2 || !PyFloat_Check(args[1]) || !coefficients.take_doubles(args[0], 2, true)) return wrong_arrays();
  shift(coefficients.doubles(), coefficients.size(0), coefficients.size(1), PyFloat_AsDouble(args[1]));
  Py_RETURN_NONE;
}

// quintics(knots, states, out) -> None
PyObject* py_quintics(PyObject*, PyObject* const* args, Py_ssize_t count) {
  BorrowedArray knots, states, out;
  if (count != 3 || !knots.take_doubles(args[0], 1) || !states.take_doubles(args[1], 3)) return wrong_arrays();
  const long pieces = knots.size(0) - 1, dof = states.size(2);
  if (pieces < 1 || states.size(0) != 3 || states.size(1) != pieces + 1) return wrong_arrays();
  if (!out.take_doubles(args[2], 3, true)) return wrong_arrays();
  if (out.size(0) != pieces || out.size(1) != 6 || out.size(2) != dof) return wrong_arrays();
  quintics({knots.doubles(), pieces}, states.doubles(), dof, out.doubles());
  Py_RETURN_NONE;
}

// blend(coefficients, knots, of_plan, knots_of_plan, lack, span, at, out) -> None
PyObject* py_blend(PyObject*, PyObject* const* args, Py_ssize_t count) {
  BorrowedArray borrowed[2], of_plan[2], lack, at, out;
  Pieces executed, plan;
  if (count != 8 || !take_motion(args[0], args[1], borrowed, executed) || !take_motion(args[2], args[3], of_plan, plan)) {
    return wrong_arrays();
  }
  if (!lack.take_doubles(args[4], 2) || !PyFloat_Check(args[5]) || !at.take_doubles(args[6], 1)) return wrong_arrays();
  const long pieces = at.size(0) - 1, dof = plan.dof;
  if (pieces < 1 || executed.dof != dof || lack.size(0) != 3 || lack.size(1) != dof) return wrong_arrays();
  if (!out.take_doubles(args[7], 3, true)) return wrong_arrays();
  if (out.size(0) != pieces || out.size(1) != 6 || out.size(2) != dof) return wrong_arrays();
  blend(executed, plan, lack.doubles(), PyFloat_AsDouble(args[5]), {at.doubles(), pieces}, out.doubles());
  Py_RETURN_NONE;
}

// extremes(coefficients, knots, out) -> None
PyObject* py_extremes(PyObject*, PyObject* const* args, Py_ssize_t count) {
  BorrowedArray borrowed[2], out;
  Pieces motion;
  if (count != 3 || !take_motion(args[0], args[1], borrowed, motion) || motion.size > kLargestExtremesSize) return wrong_arrays();
  if (!out.take_doubles(args[2], 3, true) || out.size(0) != 2 || out.size(1) != 4 || out.size(2) != motion.dof) return wrong_arrays();
  extremes(motion, out.doubles());
  Py_RETURN_NONE;
}

// retreats(planned, moved, begin, stopping, shares, rules, out) -> None
PyObject* py_retreats(PyObject*, PyObject* const* args, Py_ssize_t count) {
  BorrowedArray planned, moved, begin, stopping, shares, rules, out;
  if (count != 7 || !planned.take_doubles(args[0], 2) || !moved.take_doubles(args[1], 2)) return wrong_arrays();
  const long dof = planned.size(1);
  if (!begin.take_doubles(args[2], 1) || !stopping.take_doubles(args[3], 2)) return wrong_arrays();
  if (!shares.take_doubles(args[4], 1) || shares.size(0) != dof || !rules.take_doubles(args[5], 1)) return wrong_arrays();
  if (planned.size(0) < 1 || moved.size(0) < 1 || moved.size(1) != dof || begin.size(0) != dof) return wrong_arrays();
  if (stopping.size(0) != 2 || stopping.size(1) != dof || rules.size(0) != 5) return wrong_arrays();
  if (!out.take_doubles(args[6], 1, true) || out.size(0) != dof) return wrong_arrays();
  const double* of = rules.doubles();
  retreats({planned.doubles(), planned.size(0)}, {moved.doubles(), moved.size(0)}, begin.doubles(), stopping.doubles(),
           shares.doubles(), dof, {of[0], of[1], of[2], of[3], of[4]}, out.doubles());
  Py_RETURN_NONE;
}

// united(tracks, coefficients, knots, gap, beside, knots_out, out) -> count
PyObject* py_united(PyObject*, PyObject* const* args, Py_ssize_t count) {
  BorrowedArray of_others[2], times, out;
  Pieces others{};
  if (count != 7 || !PyDict_Check(args[0]) || !PyFloat_Check(args[3]) || !PyFloat_Check(args[4])) return wrong_arrays();
  if (!times.take_doubles(args[5], 1, true) || !out.take_doubles(args[6], 3, true)) return wrong_arrays();
  const long most = times.size(0), dof = out.size(2);
  if (out.size(0) != most - 1 || out.size(1) != kPlacedSize) return wrong_arrays();
  const bool all = args[1] == Py_None;
  if (!all && (!take_motion(args[1], args[2], of_others, others) || others.dof != dof || others.size > kPlacedSize)) {
    return wrong_arrays();
  }
  std::vector<JointSource> joints;
  for (long joint = 0; joint < dof; ++joint) joints.push_back({others, joint});
  std::vector<BorrowedArray> borrowed(2 * PyDict_Size(args[0]));
  std::vector<Knots> sources;
  if (!all) sources.push_back(others.knots);
  Py_ssize_t at = 0;
  PyObject *key, *track;
  while (PyDict_Next(args[0], &at, &key, &track) != 0) {
    BorrowedArray &knots = borrowed[2 * (sources.size() - !all)], &pieces = *(&knots + 1);
    int beyond = 0;
    const long joint = PyLong_Check(key) ? PyLong_AsLongAndOverflow(key, &beyond) : -1;
    if (joint < 0 || joint >= dof || !PyTuple_Check(track) || PyTuple_Size(track) != 2) return wrong_arrays();
    if (!knots.take_doubles(PyTuple_GetItem(track, 0), 1) || !pieces.take_doubles(PyTuple_GetItem(track, 1), 2)) return wrong_arrays();
    if (pieces.size(0) < 1 || knots.size(0) != pieces.size(0) + 1 || pieces.size(1) != kPlacedSize) return wrong_arrays();
    sources.push_back({knots.doubles(), pieces.size(0)});
    joints[joint] = {{pieces.doubles(), sources.back(), kPlacedSize, 1}, 0};
  }
  long size = 0;
  for (const Knots& knots : sources) size += knots.count + 1;
  if (size < 2 || 3 * size > most) return wrong_arrays();
  for (const JointSource& joint : joints) {
    if (joint.motion.coefficients == nullptr) return wrong_arrays();
  }
  double* end = times.doubles();
  for (const Knots& knots : sources) end = std::copy_n(knots.times, knots.count + 1, end);
  const long kept = united_knots(times.doubles(), size, PyFloat_AsDouble(args[3]), PyFloat_AsDouble(args[4])) - 1;
  place(joints, {times.doubles(), kept}, out.doubles());
  return PyLong_FromLong(kept);
}

// Takes a list or tuple of numbers.
bool take_numbers(PyObject* object, std::vector<double>& numbers) {
  const bool is_list = PyList_Check(object);
  if (!is_list && !PyTuple_Check(object)) return false;
  const Py_ssize_t count = is_list ? PyList_Size(object) : PyTuple_Size(object);
  for (Py_ssize_t i = 0; i < count; ++i) {
    PyObject* item = is_list ? PyList_GetItem(object, i) : PyTuple_GetItem(object, i);
    if (!PyFloat_Check(item)) return false;
    numbers.push_back(PyFloat_AsDouble(item));
  }
  return true;
}

// pieces_of_profiles(profiles, duration, end, velocity_only, knots, coefficients) -> list of counts
PyObject* py_pieces_of_profiles(PyObject*, PyObject* const* args, Py_ssize_t count) {
  BorrowedArray knots, coefficients;
  std::vector<double> end;
  if (count != 6 || !PyList_Check(args[0]) || !PyFloat_Check(args[1])) return wrong_arrays();
  if (!take_numbers(args[2], end) || end.size() != 3) return wrong_arrays();
  if (!knots.take_doubles(args[4], 2, true) || !coefficients.take_doubles(args[5], 3, true)) return wrong_arrays();
  const long profiles = PyList_Size(args[0]), most = coefficients.size(1);
  if (knots.size(0) != profiles || knots.size(1) != most + 1) return wrong_arrays();
  if (coefficients.size(0) != profiles || coefficients.size(2) != kPlacedSize) return wrong_arrays();
  const ProfileEnd to{PyFloat_AsDouble(args[1]), {end[0], end[1], end[2]}, args[3] == Py_True};
  std::vector<double> parts[3];  // spans, jerks, state at the begin
  std::vector<long> counts;
  for (long k = 0; k < profiles; ++k) {
    PyObject* profile = PyList_GetItem(args[0], k);
    if (!PyTuple_Check(profile) || PyTuple_Size(profile) != 3) return wrong_arrays();
    for (int part = 0; part < 3; ++part) {
      parts[part].clear();
      if (!take_numbers(PyTuple_GetItem(profile, part), parts[part])) return wrong_arrays();
    }
    const auto& [spans, jerks, begin] = parts;
    const long size = static_cast<long>(spans.size());
    if (size < 1 || size > most || jerks.size() != spans.size() || begin.size() != 3) return wrong_arrays();
    counts.push_back(pieces_of_profile({spans.data(), jerks.data(), size, {begin[0], begin[1], begin[2]}}, to,
                                       knots.doubles() + k * (most + 1), coefficients.doubles() + k * most * kPlacedSize));
  }
  PyObject* result = PyList_New(profiles);
  for (long k = 0; result != nullptr && k < profiles; ++k) {
    PyObject* one = PyLong_FromLong(counts[k]);
    if (one == nullptr || PyList_SetItem(result, k, one) != 0) Py_CLEAR(result);
  }
  return result;
}

// A number is finite if not all bits of its exponent are set.
template <class Bits>
bool all_finite(const void* numbers, long bytes, Bits exponent) {
  const char* from = static_cast<const char*>(numbers);
  Bits bad = 0;
  for (long at = 0; at < bytes; at += sizeof(Bits)) {
    Bits bits;
    std::memcpy(&bits, from + at, sizeof(Bits));
    bad |= (bits & exponent) == exponent;
  }
  return bad == 0;
}

// all_finite(numbers) -> bool | None
PyObject* py_all_finite(PyObject*, PyObject* object) {
  BorrowedArray numbers;
  if (!numbers.take(object)) Py_RETURN_NONE;
  switch (numbers.type()) {
    case 'f': return PyBool_FromLong(all_finite<uint32_t>(numbers.data(), numbers.size() * 4, 0x7f800000U));
    case 'd': return PyBool_FromLong(all_finite<uint64_t>(numbers.data(), numbers.size() * 8, 0x7ff0000000000000U));
    default: Py_RETURN_NONE;
  }
}

PyMethodDef methods[] = {
    {"motion_through", as_method(&py_motion_through), METH_FASTCALL, "The motion through positions."},
    {"surely_keeps", as_method(&py_surely_keeps), METH_FASTCALL, "Whether a motion surely keeps bounds."},
    {"extremes", as_method(&py_extremes), METH_FASTCALL, "Least and greatest values of the derivatives."},
    {"retreats", as_method(&py_retreats), METH_FASTCALL, "How far joints go back."},
    {"united", as_method(&py_united), METH_FASTCALL, "Motions of single joints as one of all joints."},
    {"pieces_of_profiles", as_method(&py_pieces_of_profiles), METH_FASTCALL, "Pieces of time-optimal profiles."},
    {"states_at", as_method(&py_states_at), METH_FASTCALL, "Position, velocity, acceleration and jerk at times."},
    {"end", as_method(&py_end), METH_FASTCALL, "The state in which the last piece ends."},
    {"from_time", as_method(&py_from_time), METH_FASTCALL, "The rest of a motion."},
    {"then", as_method(&py_then), METH_FASTCALL, "One motion after another."},
    {"points", as_method(&py_points), METH_FASTCALL, "The points of a motion."},
    {"shift", as_method(&py_shift), METH_FASTCALL, "A piece about another time, in place."},
    {"quintics", as_method(&py_quintics), METH_FASTCALL, "The quintics between states."},
    {"blend", as_method(&py_blend), METH_FASTCALL, "The quintics of a difference that fades."},
    {"all_finite", &py_all_finite, METH_O, "Whether numbers hold neither NaN nor infinity."},
    {nullptr, nullptr, 0, nullptr},
};

PyModuleDef definition = {PyModuleDef_HEAD_INIT, "_native", "Compiled steps of motions.", -1, methods,
                          nullptr, nullptr, nullptr, nullptr};

}  // namespace
}  // namespace traj_integrator::execution

PyMODINIT_FUNC PyInit__native() { return PyModule_Create(&traj_integrator::execution::definition); }
