// The module `_native`: retiming of arrays that are borrowed from Python for one call. Shapes are checked by the caller.
#include <cstdint>
#include <limits>

#include "batch.h"
#include "certificate.h"
#include "python_buffer.h"
#include "threads.h"

namespace traj_integrator::retiming {
namespace {

using Given = traj_integrator::Array;

// Contiguous arrays of one call, of numbers of eight bytes, from tuples of as many; None is null.
class Borrowed {
 public:
  template <size_t count>
  bool take(PyObject* objects, Given (&arrays)[count], bool writable = false) {
    bool fits = PyTuple_Check(objects) != 0 && PyTuple_Size(objects) == static_cast<Py_ssize_t>(count);
    for (size_t k = 0; fits && k < count; ++k) {
      Given& array = arrays[k];
      fits = buffers_.take(PyTuple_GetItem(objects, static_cast<Py_ssize_t>(k)), array, writable) &&
             (!array.given() || array.type == 'd' || array.type == 'l');
    }
    if (!fits) PyErr_SetString(PyExc_TypeError, "expected contiguous arrays of float64, or int64");
    return fits;
  }

 private:
  BorrowedBuffers<> buffers_;
};

// retime(inputs, outputs, gradient, flags, threads), as `Batch` has them:
//   inputs: position, velocity, acceleration, knots, four limits, ends, duration
//   outputs: info, scalars, times, states, row_times, segment_ratio, segment_joint
//   gradient: adjoint, phase, by_limits, piece, knot_of_row
//   flags: order, intervals, slow_only, hold
PyObject* py_retime(PyObject*, PyObject* args) {
  PyObject *inputs, *outputs, *gradient;
  long long order, intervals, threads;
  int slow_only, hold;
  if (!PyArg_ParseTuple(args, "OOO(LLpp)L", &inputs, &outputs, &gradient, &order, &intervals, &slow_only, &hold, &threads)) {
    return nullptr;
  }
  Given in[10], out[7], of_gradient[5];
  Borrowed arrays;
  if (!arrays.take(inputs, in) || !arrays.take(outputs, out, true) || !arrays.take(gradient, of_gradient, true)) return nullptr;
  const auto real = [](const Given& array) { return array.as<double>(); };
  const int64_t batch = in[0].shape[0], dof = in[0].shape[2];
  const Batch all{
      .batch = batch, .rows = in[0].shape[1], .dof = dof, .points = out[2].shape[1],
      .position = real(in[0]), .velocity = real(in[1]), .acceleration = real(in[2]), .knots = real(in[3]),
      .limits = {real(in[4]), real(in[5]), real(in[6]), real(in[7])}, .ends = real(in[8]), .duration = real(in[9]),
      .limits_stride = in[4].shape[0] == batch ? dof : 0, .options = {order, intervals, slow_only != 0, hold != 0},
      .info = out[0].as<int64_t>(), .scalars = real(out[1]), .times = real(out[2]), .states = real(out[3]),
      .row_times = real(out[4]), .segment_ratio = real(out[5]), .segment_joint = out[6].as<int64_t>(),
      .gradient_points = of_gradient[0].shape[1], .adjoint = real(of_gradient[0]), .phase = real(of_gradient[1]),
      .by_limits = real(of_gradient[2]), .piece = of_gradient[3].as<int64_t>(), .knot_of_row = of_gradient[4].as<int64_t>()};
  Py_BEGIN_ALLOW_THREADS;
  retime(all, threads);
  Py_END_ALLOW_THREADS;
  Py_RETURN_NONE;
}

// extremes((times, position, velocity, acceleration, counts), (extremes, places), threads): least and greatest position,
// velocity, acceleration and jerk [B, 2, 4, D] of what is played between points, and the points before them [B, 2, 4, D].
PyObject* py_extremes(PyObject*, PyObject* args) {
  PyObject *inputs, *outputs;
  long long threads;
  Given in[5], out[2];
  Borrowed arrays;
  if (!PyArg_ParseTuple(args, "OOL", &inputs, &outputs, &threads) || !arrays.take(inputs, in) || !arrays.take(outputs, out, true)) {
    return nullptr;
  }
  const int64_t batch = in[1].shape[0], points = in[1].shape[1], dof = in[1].shape[2];
  const double *const t = in[0].as<double>(), *const p = in[1].as<double>(), *const v = in[2].as<double>();
  const double* const a = in[3].as<double>();
  const int64_t* const counts = in[4].as<int64_t>();
  double* const result = out[0].as<double>();
  int64_t* const places = out[1].as<int64_t>();
  Py_BEGIN_ALLOW_THREADS;
  on_threads(batch, threads, [&](int64_t b) {
    for (int64_t j = 0; j < dof; ++j) {
      double low[kOrders], high[kOrders], was[2][kOrders], c[kDegree + 1];
      std::fill_n(low, kOrders, std::numeric_limits<double>::infinity());
      std::fill_n(high, kOrders, -std::numeric_limits<double>::infinity());
      const int64_t to = b * 2 * kOrders * dof + j;
      for (int64_t i = 0; i + 1 < counts[b]; ++i) {
        const int64_t k = b * points + i, from = k * dof + j, next = from + dof;
        const auto at = [](const double* of, int64_t index) { return of == nullptr ? nullptr : of + index; };
        std::copy_n(low, kOrders, was[0]);
        std::copy_n(high, kOrders, was[1]);
        piece_between(t[k + 1] - t[k], p[from], p[next], at(v, from), at(v, next), at(a, from), at(a, next), c);
        widen_by_piece(c, t[k + 1] - t[k], low, high);
        for (int64_t order = 0; order < kOrders; ++order) {
          if (low[order] < was[0][order]) places[to + order * dof] = i;
          if (high[order] > was[1][order]) places[to + (kOrders + order) * dof] = i;
        }
      }
      for (int64_t order = 0; order < kOrders; ++order) {
        result[to + order * dof] = low[order];
        result[to + (kOrders + order) * dof] = high[order];
      }
    }
  });
  Py_END_ALLOW_THREADS;
  Py_RETURN_NONE;
}

PyMethodDef methods[] = {
    {"retime", &py_retime, METH_VARARGS, "Times of paths under limits."},
    {"extremes", &py_extremes, METH_VARARGS, "Exact extremes of what is played between points."},
    {nullptr, nullptr, 0, nullptr},
};

PyModuleDef definition = {PyModuleDef_HEAD_INIT, "_native", "Retiming in C++.", -1, methods, nullptr, nullptr, nullptr, nullptr};

}  // namespace
}  // namespace traj_integrator::retiming

PyMODINIT_FUNC PyInit__native() { return PyModule_Create(&traj_integrator::retiming::definition); }
