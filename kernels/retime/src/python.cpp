// The module `_native`: retiming of arrays that are borrowed from Python for one call. Shapes are checked by the caller.
#include <cstdint>
#include <limits>

#include "batch.h"
#include "certificate.h"
#include "python_buffer.h"
#include "threads.h"

namespace traj_integrator::retiming {
namespace {

// Contiguous arrays of one call, of numbers of eight bytes; None is null.
class Borrowed {
 public:
  template <class T>
  bool take(PyObject* object, T*& data, bool writable = false) {
    traj_integrator::Array array;
    if (!buffers_.take(object, array, writable) || (array.given() && array.type != 'd' && array.type != 'l')) {
      PyErr_SetString(PyExc_TypeError, "expected contiguous arrays of float64, or int64");
      return false;
    }
    data = array.as<T>();
    return true;
  }

 private:
  BorrowedBuffers<> buffers_;
};

// retime(sizes, flags, inputs, outputs, gradient, threads), as `Batch` has them:
//   sizes: batch, rows, dof, points, gradient_points, knots_stride, limits_stride
//   flags: order, intervals, slow_only, hold, rests
//   inputs: position, velocity, acceleration, knots, four limits, ends, duration
//   outputs: info, scalars, times, states, row_times, segment_ratio, segment_joint
//   gradient: adjoint, phase, by_limits, piece, knot_of_row
PyObject* py_retime(PyObject*, PyObject* args) {
  Batch all{};
  PyObject *in[10], *out[12];
  long long sizes[7], order, intervals, threads;
  int slow_only, hold, rests;
  if (!PyArg_ParseTuple(args, "(LLLLLLL)(LLppp)(OOOOOOOOOO)(OOOOOOO)(OOOOO)L", &sizes[0], &sizes[1], &sizes[2], &sizes[3],
                        &sizes[4], &sizes[5], &sizes[6], &order, &intervals, &slow_only, &hold, &rests, &in[0], &in[1],
                        &in[2], &in[3], &in[4], &in[5], &in[6], &in[7], &in[8], &in[9], &out[0], &out[1], &out[2], &out[3],
                        &out[4], &out[5], &out[6], &out[7], &out[8], &out[9], &out[10], &out[11], &threads)) {
    return nullptr;
  }
  all.batch = sizes[0], all.rows = sizes[1], all.dof = sizes[2], all.points = sizes[3], all.gradient_points = sizes[4];
  all.knots_stride = sizes[5], all.limits_stride = sizes[6];
  all.options = {order, intervals, slow_only != 0, hold != 0, 0};
  all.rests = rests != 0;
  Borrowed inputs, outputs;
  bool taken = inputs.take(in[0], all.position) && inputs.take(in[1], all.velocity) &&
               inputs.take(in[2], all.acceleration) && inputs.take(in[3], all.knots);
  for (int k = 0; k < 4; ++k) taken = taken && inputs.take(in[4 + k], all.limits[k]);
  taken = taken && inputs.take(in[8], all.ends) && inputs.take(in[9], all.duration);
  taken = taken && outputs.take(out[0], all.info, true) && outputs.take(out[1], all.scalars, true) &&
          outputs.take(out[2], all.times, true) && outputs.take(out[3], all.states, true) &&
          outputs.take(out[4], all.row_times, true) && outputs.take(out[5], all.segment_ratio, true) &&
          outputs.take(out[6], all.segment_joint, true) && outputs.take(out[7], all.adjoint, true) &&
          outputs.take(out[8], all.phase, true) && outputs.take(out[9], all.by_limits, true) &&
          outputs.take(out[10], all.piece, true) && outputs.take(out[11], all.knot_of_row, true);
  if (!taken) return nullptr;
  Py_BEGIN_ALLOW_THREADS;
  retime(all, threads);
  Py_END_ALLOW_THREADS;
  Py_RETURN_NONE;
}

// extremes((batch, points, dof), times, position, velocity, acceleration, counts, extremes, places, threads): least and
// greatest position, velocity, acceleration and jerk [B, 2, 4, D] of what is played between points, and the points before
// them [B, 2, 4, D].
PyObject* py_extremes(PyObject*, PyObject* args) {
  PyObject* objects[7];
  long long batch, points, dof, threads;
  if (!PyArg_ParseTuple(args, "(LLL)OOOOOOOL", &batch, &points, &dof, &objects[0], &objects[1], &objects[2], &objects[3],
                        &objects[4], &objects[5], &objects[6], &threads)) {
    return nullptr;
  }
  const double *t, *p, *v, *a;
  const int64_t* counts;
  double* result;
  int64_t* places;
  Borrowed arrays;
  if (!arrays.take(objects[0], t) || !arrays.take(objects[1], p) || !arrays.take(objects[2], v) ||
      !arrays.take(objects[3], a) || !arrays.take(objects[4], counts) || !arrays.take(objects[5], result, true) ||
      !arrays.take(objects[6], places, true)) {
    return nullptr;
  }
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
