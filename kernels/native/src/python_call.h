// Common to calls from Python: their arguments, how they run, their errors.
#pragma once

#include <cmath>
#include <new>
#include <vector>

#include "call.h"
#include "python_torch.h"

namespace traj_integrator {

// The linear inputs of a map, and their gradients: action, position to jerk of the start, and of the goal.
constexpr int kValues = 1 + kEnds;
inline Array& value_of(Call& call, int k) { return k == 0 ? call.action : call.ends[k - 1]; }

// The arrays of one call. Every function returns false, without a Python error, if an argument is no array.
class Arguments {
 public:
  static constexpr const char* kFormName = "traj_integrator.SplineForm";

  // An input may be a tensor of any strides: its copy is kept for the call.
  bool take(PyObject* object, Array& array, bool writable = false) {
    if (!is_tensor(object)) return buffers_.take(object, array, writable);
    if (read_tensor(object, array)) return true;
    if (writable) return false;
    copies_.push_back(readable(object));
    return copies_.back().get() != nullptr && read_tensor(copies_.back().get(), array);
  }

  // A tuple or list of at most `most`, or None.
  bool take_all(PyObject* objects, Array* arrays, Py_ssize_t most, bool writable = false) {
    const Py_ssize_t count = size_of(objects);
    for (Py_ssize_t k = 0; k < count && count <= most; ++k) {
      if (!take(item(objects, k), arrays[k], writable)) return false;
    }
    return 0 <= count && count <= most;
  }

  // Four arrays; or one array that stacks them; or None.
  bool take_outputs(PyObject* objects, Array (&outputs)[kOutputs]) {
    if (objects == Py_None) return true;
    if (size_of(objects) >= 0) return take_all(objects, outputs, kOutputs, true) && outputs[0].given();
    Array all;
    if (!take(objects, all, true) || all.dims != 4 || !all.is_real() || all.shape[0] != kOutputs) return false;
    const int64_t bytes = all.size() / kOutputs * (all.type == 'd' ? sizeof(double) : sizeof(float));
    for (int k = 0; k < kOutputs; ++k) {
      outputs[k] = {all.as<char>() + k * bytes, all.type, 3, {all.shape[1], all.shape[2], all.shape[3]}};
    }
    return true;
  }

  // A number of seconds, or an array of them.
  bool take_dt(PyObject* object, Array& dt) {
    if (!PyFloat_CheckExact(object)) return take(object, dt);
    seconds_ = PyFloat_AsDouble(object);
    if (!(seconds_ > 0 && std::isfinite(seconds_))) return false;
    dt = {&seconds_, 'd', 2, {1, 1}};
    return true;
  }

  // A number of a map, or what `spline_form` returned.
  bool take_map(PyObject* object, Call& call) {
    if (PyCapsule_IsValid(object, kFormName) != 0) {
      call.spline = static_cast<const SplineForm*>(PyCapsule_GetPointer(object, kFormName));
      return true;
    }
    const long long number = PyLong_Check(object) ? PyLong_AsLongLong(object) : -1;
    call.map = static_cast<ControlMap>(number);
    return number >= 0 && number < static_cast<long long>(std::size(kControlMaps));
  }

  // The arguments of every map: map, values, indices, dt (see `Inputs` in types.py). Goal rows that are all None are no
  // goal; missing ends of tuples are None.
  bool take_inputs(PyObject* const* args, Call& call) {
    if (!take_map(args[0], call) || size_of(args[1]) > kValues) return false;
    for (int k = 0; k < kValues; ++k) {
      if (!take(item(args[1], k), value_of(call, k))) return false;
      call.has_goal = call.has_goal || (k > kStartRows && call.ends[k - 1].given());
    }
    return take_all(args[2], call.index, 2) && take_dt(args[3], call.dt);
  }

  // A tuple of those of each output.
  bool take_terms(PyObject* object, CostCall& call) {
    bool fits = size_of(object) == kOutputs;
    for (int k = 0; fits && k < kOutputs; ++k) fits = take_all(item(object, k), call.terms[k], CostCall::kFields);
    return fits;
  }

  // The arguments of every vjp: map, upstream, indices, dt.
  bool take_upstream(PyObject* const* args, Call& call) {
    return take_map(args[0], call) && take_all(args[1], call.outputs, kOutputs) && take_all(args[2], call.index, 2) &&
           take_dt(args[3], call.dt);
  }

  // The length of a tuple or list; 0 for None, -1 for anything else.
  static Py_ssize_t size_of(PyObject* objects) {
    return PyTuple_Check(objects) ? PyTuple_Size(objects) : PyList_Check(objects) ? PyList_Size(objects) : objects == Py_None ? 0 : -1;
  }
  // None beyond the end.
  static PyObject* item(PyObject* objects, Py_ssize_t k) {
    if (k >= size_of(objects)) return Py_None;
    return PyList_Check(objects) ? PyList_GetItem(objects, k) : PyTuple_GetItem(objects, k);
  }

 private:
  BorrowedBuffers<> buffers_;
  std::vector<Object> copies_;
  double seconds_ = 0;
};

inline PyObject* raised(const Misfit& misfit) {
  PyObject* const errors[] = {PyExc_TypeError, PyExc_ValueError, PyExc_IndexError};
  PyErr_SetString(errors[static_cast<int>(misfit.what)], misfit.text.c_str());
  return nullptr;
}

inline PyObject* unfit() {
  return raised({Wrong::kValue, "expected contiguous arrays or tensors on the CPU, of float32, float64, int32 or int64"});
}

// Runs a call on as many threads as torch would, without Python's lock if releasing it pays; false: an error is set.
template <class Compute>
bool run(int64_t elements, const Compute& compute) {
  constexpr int64_t kReleaseElements = 4096;
  int threads = 1;
  if (elements >= kReleaseElements && torch.get_num_threads != nullptr) {
    const Object count(PyObject_CallObject(torch.get_num_threads, nullptr));
    if (count.get() != nullptr) threads = static_cast<int>(PyLong_AsLong(count.get()));
  }
  PyThreadState* const released = elements >= kReleaseElements ? PyEval_SaveThread() : nullptr;
  const auto lock = [&] {
    if (released != nullptr) PyEval_RestoreThread(released);
  };
  try {
    compute(threads);
  } catch (const Misfit& misfit) {
    lock();
    raised(misfit);
    return false;
  } catch (const std::bad_alloc&) {
    lock();
    PyErr_NoMemory();
    return false;
  }
  lock();
  return true;
}

}  // namespace traj_integrator
