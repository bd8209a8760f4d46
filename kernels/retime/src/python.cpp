// The module `_native`: retiming of arrays that are borrowed from Python for one call. Shapes are checked by the caller.
#include <algorithm>
#include <atomic>
#include <cstdint>
#include <limits>

#include "certificate.h"
#include "parallel.h"
#include "python_buffer.h"
#include "trajectory.h"

namespace traj_integrator::retiming {
namespace {

// Contiguous arrays of one call, of numbers of eight bytes, from tuples of as many; None is null.
class Borrowed {
 public:
  template <size_t count>
  bool take(PyObject* objects, Array (&arrays)[count], bool writable = false) {
    bool fits = PyTuple_Check(objects) != 0 && PyTuple_Size(objects) == static_cast<Py_ssize_t>(count);
    for (size_t k = 0; fits && k < count; ++k) {
      Array& array = arrays[k];
      fits = buffers_.take(PyTuple_GetItem(objects, static_cast<Py_ssize_t>(k)), array, writable) &&
             (!array.given() || array.type == 'd' || array.type == 'l');
    }
    if (!fits) PyErr_SetString(PyExc_TypeError, "expected contiguous arrays of float64, or int64");
    return fits;
  }

 private:
  BorrowedBuffers<> buffers_;
};

// Calls task(0) to task(count - 1), each once; a thread takes the next one as soon as it has done one.
template <class Task>
void on_threads(int64_t count, int64_t threads, const Task& task) {
  std::atomic<int64_t> next = 0;
  const auto work = [&](int64_t, int64_t) {
    for (int64_t k; (k = next.fetch_add(1)) < count;) task(k);
  };
  parallel_for(0, std::min(threads, count), 1, static_cast<int>(threads), work);
}

// What belongs to one trajectory of an array [B, ..], or of one that all share, [1, ..].
template <class Number = double>
Number* row(const Array& array, int64_t b) {
  if (!array.given()) return nullptr;
  return array.as<Number>() + (array.shape[0] == 1 ? 0 : b * (array.size() / array.shape[0]));
}

template <class Number>
void write(const std::vector<Number>& from, const Array& to, int64_t b) {
  std::copy(from.begin(), from.end(), row<Number>(to, b));
}

// retime(inputs, outputs, gradient, flags, threads):
//   inputs: position, velocity, acceleration [B, W, D], knots [W], limits of four kinds [1 or B, D], ends [B, 4], duration [B]
//   outputs: info [B, 6]: status, points, unchanged, iterations, rounds, points of the gradient; scalars [B, 5]: duration,
//     largest start speed, three ratios; times [B, P]; position, velocity, acceleration [B, P, D]; row_times [B, W];
//     segment_ratio, segment_joint [B, W - 1, 3]
//   gradient, of the third order: adjoint [B, G, 3, D], phase [B, G, 4], by_limits [B, 4, D], piece [B, G], knot_of_row [B, W]
//   flags: order, intervals, slow_only, hold
PyObject* py_retime(PyObject*, PyObject* args) {
  PyObject *inputs, *outputs, *gradient;
  long long order, intervals, threads;
  int slow_only, hold;
  if (!PyArg_ParseTuple(args, "OOO(LLpp)L", &inputs, &outputs, &gradient, &order, &intervals, &slow_only, &hold, &threads)) {
    return nullptr;
  }
  Array in[10], out[9], by[5];
  Borrowed arrays;
  if (!arrays.take(inputs, in) || !arrays.take(outputs, out, true) || !arrays.take(gradient, by, true)) return nullptr;
  const int64_t rows = in[0].shape[1], dof = in[0].shape[2];
  const auto retime_one = [&](int64_t b) {
    thread_local Retimer retimer;
    const PathRows path{rows, dof, row(in[0], b), row(in[1], b), row(in[2], b), in[3].as<double>(), slow_only != 0};
    const Limits limits(dof, {row(in[4], b), row(in[5], b), row(in[6], b), order == 3 ? row(in[7], b) : nullptr});
    const double *const ends = row(in[8], b), *const duration = row(in[9], b);
    const Options options{order, intervals, slow_only != 0, hold != 0, duration == nullptr ? 0 : *duration};
    const Status status = retimer.retime(path, limits, {ends[0], ends[1], ends[2], ends[3]}, options);
    const Played& played = retimer.played;
    int64_t* const info = row<int64_t>(out[0], b);
    double* const scalars = row(out[1], b);
    info[0] = static_cast<int64_t>(status);
    info[2] = retimer.unchanged;
    scalars[0] = retimer.duration;
    scalars[1] = retimer.largest_start_speed;
    write(played.segment_ratio, out[7], b);
    write(played.segment_joint, out[8], b);
    if (status != Status::kDone && status != Status::kExceeds && status != Status::kStill) return;
    info[1] = static_cast<int64_t>(played.times.size());
    info[3] = retimer.iterations;
    info[4] = retimer.rounds;
    std::copy_n(played.ratio, 3, scalars + 2);
    write(played.times, out[2], b);
    write(played.position, out[3], b);
    write(played.velocity, out[4], b);
    write(played.acceleration, out[5], b);
    write(played.row_times, out[6], b);
    if (status == Status::kStill || !by[0].given() || retimer.third.gradient_points() > by[0].shape[1]) return;
    info[5] = retimer.third.gradient_points();
    retimer.third.gradient({row(by[0], b), row(by[1], b), row<int64_t>(by[3], b), row(by[2], b)});
    write(retimer.path.knot_of_row(), by[4], b);
  };
  Py_BEGIN_ALLOW_THREADS;
  on_threads(in[0].shape[0], threads, retime_one);
  Py_END_ALLOW_THREADS;
  Py_RETURN_NONE;
}

// extremes((times, position, velocity, acceleration, counts), (extremes, places), threads): least and greatest position,
// velocity, acceleration and jerk [B, 2, 4, D] of what is played between points, and the points before them [B, 2, 4, D].
PyObject* py_extremes(PyObject*, PyObject* args) {
  PyObject *inputs, *outputs;
  long long threads;
  Array in[5], out[2];
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
