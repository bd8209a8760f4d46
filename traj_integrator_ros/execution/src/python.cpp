// The module `_native`: functions on arrays borrowed from Python for one call, any objects with the buffer protocol.
//
// Each raises TypeError if an array has another shape or type.
#include <algorithm>
#include <cstdint>
#include <cstring>
#include <vector>

#include "motions.h"
#include "python_buffer.h"

namespace traj_integrator::execution {
namespace {

constexpr long kAny = -1;

// The arguments of one call, taken one after the other. Where one is wrong, that one and all later ones are empty.
class Arguments {
 public:
  Arguments(PyObject* const* given, Py_ssize_t count) : next_(given), end_(given + count) {}

  // Whether all of them were taken, and right.
  bool fit() const { return fit_ && next_ == end_; }
  // Rules out arguments that do not belong together.
  void require(bool fits) { fit_ = fit_ && fits; }

  // An array of a shape, whose sizes may be any.
  Array array(std::initializer_list<long> shape, char type = 'd', bool writable = false) {
    Array taken;
    require(next_ != end_ && buffers_.take(*next_++, taken, writable));
    require(taken.type == type && taken.dims == static_cast<int>(shape.size()));
    require(std::equal(shape.begin(), shape.end(), taken.shape, [](long of, long got) { return of == kAny || of == got; }));
    return fit_ ? taken : Array{};
  }
  double* doubles(std::initializer_list<long> shape) { return array(shape).as<double>(); }
  double* out(std::initializer_list<long> shape) { return array(shape, 'd', true).as<double>(); }
  // An array, or null for None.
  double* optional(std::initializer_list<long> shape) {
    if (next_ == end_ || *next_ != Py_None) return doubles(shape);
    ++next_;
    return nullptr;
  }
  bool is_number() const { return next_ != end_ && PyFloat_Check(*next_); }
  bool is_none() const { return next_ != end_ && *next_ == Py_None; }
  double number() {
    require(is_number());
    return fit_ ? PyFloat_AsDouble(*next_++) : 0;
  }
  PyObject* list() {
    require(next_ != end_ && PyList_Check(*next_));
    return fit_ ? *next_++ : nullptr;
  }
  std::vector<double> numbers() {
    PyObject* given = list();
    std::vector<double> taken(given == nullptr ? 0 : PyList_Size(given));
    for (size_t i = 0; i < taken.size(); ++i) {
      PyObject* item = PyList_GetItem(given, static_cast<Py_ssize_t>(i));
      require(PyFloat_Check(item));
      taken[i] = fit_ ? PyFloat_AsDouble(item) : 0;
    }
    return taken;
  }
  bool flag() {
    require(next_ != end_);
    return fit_ && *next_++ == Py_True;
  }
  // Coefficients [N, K + 1, D] and knots [N + 1].
  Pieces motion() {
    const Array coefficients = array({kAny, kAny, kAny}), knots = array({coefficients.shape[0] + 1});
    const long count = coefficients.shape[0], size = coefficients.shape[1], dof = coefficients.shape[2];
    require(count > 0 && size > 1 && size <= kLargestSize && dof > 0);
    return {coefficients.as<double>(), {knots.as<double>(), count}, size, dof};
  }

 private:
  PyObject* const* next_;
  PyObject* const* end_;
  bool fit_ = true;
  BorrowedBuffers<8> buffers_;
};

// A function as one of Python, which raises TypeError where its arguments do not fit.
template <PyObject* (*function)(Arguments&)>
PyObject* called(PyObject*, PyObject* const* given, Py_ssize_t count) {
  Arguments arguments(given, count);
  PyObject* result = function(arguments);
  if (!arguments.fit()) {
    PyErr_SetString(PyExc_TypeError, "arrays: expected contiguous ones of float64, of shapes that belong together");
  }
  return result;
}

PyObject* none() { Py_RETURN_NONE; }

PyObject* py_spline(Arguments& given) {
  const Array times = given.array({kAny}), rows = given.array({times.shape[0], kAny});
  const long count = times.shape[0] - 1, dof = rows.shape[1];
  const double* velocity = given.optional({dof});
  const bool rests = given.flag();
  double* out = given.out({count, 4, dof});
  given.require(count > 0 && dof > 0);
  if (!given.fit()) return nullptr;
  spline({times.as<double>(), count}, rows.as<double>(), dof, velocity, rests, out);
  return none();
}

PyObject* py_widen(Arguments& given) {
  const Pieces motion = given.motion();
  double* ranges = given.out({2, kOrders, motion.dof});
  return given.fit() ? PyBool_FromLong(widen(motion, ranges)) : nullptr;
}

PyObject* py_states_at(Arguments& given) {
  const Pieces motion = given.motion();
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
    states_at(motion, one ? &time : times.as<double>(), one ? 1 : times.shape[0], out.shape[0], out.as<double>());
  }
  return none();
}

PyObject* py_points(Arguments& given) {
  const Pieces motion = given.motion();
  const double* of = given.doubles({5});
  const bool ends_pieces = given.flag(), rests = given.flag();
  const long count = motion.knots.count + 1;
  long* time_ns = given.array({count}, 'l', true).as<long>();
  double* out = given.out({3, count, motion.dof});
  if (!given.fit()) return nullptr;
  points(motion, {of[0], of[1], of[2], of[3], of[4]}, ends_pieces, rests, time_ns, out);
  return none();
}

PyObject* py_shift(Arguments& given) {
  const Array piece = given.array({kAny, kAny}, 'd', true);
  const double by = given.number();
  if (!given.fit()) return nullptr;
  shift(piece.as<double>(), piece.shape[0], piece.shape[1], by);
  return none();
}

PyObject* py_add(Arguments& given) {
  const Array polynomial = given.array({kAny, kAny}), times = given.array({kAny});
  const long size = polynomial.shape[0], dof = polynomial.shape[1], count = times.shape[0];
  double* out = given.out({count, size, dof});
  given.require(size > 0);
  if (!given.fit()) return nullptr;
  add(polynomial.as<double>(), size, dof, times.as<double>(), count, out);
  return none();
}

PyObject* py_blend(Arguments& given) {
  const Pieces executed = given.motion(), plan = given.motion();
  const double* lack = given.doubles({3, plan.dof});
  const double span = given.number();
  const Array at = given.array({kAny});
  const long count = at.shape[0] - 1;
  double* out = given.out({count, 6, plan.dof});
  given.require(count > 0 && executed.dof == plan.dof);
  if (!given.fit()) return nullptr;
  blend(executed, plan, lack, span, {at.as<double>(), count}, out);
  return none();
}

PyObject* py_retreats(Arguments& given) {
  const Array planned = given.array({kAny, kAny}), moved = given.array({kAny, planned.shape[1]});
  const long dof = planned.shape[1];
  const double *begin = given.doubles({dof}), *stopping = given.doubles({2, dof}), *shares = given.doubles({dof});
  const double *of = given.doubles({5});
  double* back = given.out({dof});
  given.require(planned.shape[0] > 0 && moved.shape[0] > 0);
  if (!given.fit()) return nullptr;
  const Samples of_plan{planned.as<double>(), planned.shape[0]}, of_way{moved.as<double>(), moved.shape[0]};
  retreats(of_plan, of_way, begin, stopping, shares, dof, {of[0], of[1], of[2], of[3], of[4]}, back);
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

PyObject* py_united(Arguments& given) {
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
  double* end = std::copy_n(more.as<double>(), more.shape[0], knots.as<double>());
  for (const Pieces& track : tracks) end = std::copy_n(track.knots.times, track.knots.count + 1, end);
  const long kept = united_knots(knots.as<double>(), size, gap, beside) - 1;
  place(tracks.data(), joints, {knots.as<double>(), kept}, out);
  return PyLong_FromLong(kept);
}

PyObject* py_pieces_of_profiles(Arguments& given) {
  const std::vector<double> profiles = given.numbers();
  const Array begins = given.array({3, kAny});
  const double duration = given.number();
  const double* end = given.doubles({3});
  const bool velocity_only = given.flag();
  const long joints = begins.shape[1], most = joints > 0 ? profiles.size() / (2 * joints) : 0;
  double *knots = given.out({joints, most + 1}), *coefficients = given.out({joints, most, kLargestSize});
  long* counts = given.array({joints}, 'l', true).as<long>();
  given.require(most > 0 && profiles.size() == static_cast<size_t>(2 * joints * most));
  if (!given.fit()) return nullptr;
  for (long joint = 0; joint < joints; ++joint) {
    const double *spans = profiles.data() + 2 * joint * most, *from = begins.as<double>() + joint;
    const double begin[3] = {from[0], from[joints], from[2 * joints]};
    counts[joint] = pieces_of_profile(spans, spans + most, most, begin, {duration, end, velocity_only},
                                      knots + joint * (most + 1), coefficients + joint * most * kLargestSize);
  }
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

// None: it has no contiguous real numbers.
PyObject* py_all_finite(PyObject*, PyObject* object) {
  BorrowedBuffers<1> buffers;
  Array numbers;
  if (!buffers.take(object, numbers) || !numbers.is_real()) Py_RETURN_NONE;
  return PyBool_FromLong(numbers.type == 'f' ? all_finite<uint32_t>(numbers, 0x7f800000U)
                                             : all_finite<uint64_t>(numbers, 0x7ff0000000000000U));
}

template <PyObject* (*function)(Arguments&)>
PyMethodDef method(const char* name, const char* what) {
  return {name, as_method(&called<function>), METH_FASTCALL, what};
}

PyMethodDef methods[] = {
    method<py_spline>("spline", "The C2 cubic spline through positions."),
    method<py_widen>("widen", "Widens ranges of the derivatives to those of a motion; whether it had to."),
    method<py_states_at>("states_at", "Position, velocity, acceleration and jerk at times, or at the end."),
    method<py_points>("points", "The points of a motion."),
    method<py_shift>("shift", "A piece about another time, in place."),
    method<py_add>("add", "Adds a polynomial to pieces."),
    method<py_blend>("blend", "The quintics of a difference that fades."),
    method<py_retreats>("retreats", "How far joints go back."),
    method<py_united>("united", "Motions of single joints as one of all joints."),
    method<py_pieces_of_profiles>("pieces_of_profiles", "Pieces of time-optimal profiles."),
    {"all_finite", &py_all_finite, METH_O, "Whether numbers hold neither NaN nor infinity."},
    {nullptr, nullptr, 0, nullptr},
};

PyModuleDef definition = {PyModuleDef_HEAD_INIT, "_native", "Compiled steps of motions.", -1, methods,
                          nullptr, nullptr, nullptr, nullptr};

}  // namespace
}  // namespace traj_integrator::execution

PyMODINIT_FUNC PyInit__native() { return PyModule_Create(&traj_integrator::execution::definition); }
