// What calls from Python have in common: their arguments, how they run, what they return.
#pragma once

#include <cmath>
#include <new>
#include <vector>

#include "call.h"
#include "python_torch.h"

namespace traj_integrator {

// The arrays of one call. Every function returns false, without a Python error, where something is none.
class Arguments {
 public:
  // What is not written may be a tensor of any strides: its copy is kept for the call.
  bool take(PyObject* object, Array& array, bool writable = false) {
    if (!is_tensor(object)) return buffers_.take(object, array, writable);
    if (read_tensor(object, array)) return true;
    if (writable) return false;
    copies_.push_back(readable(object));
    return copies_.back().get() != nullptr && read_tensor(copies_.back().get(), array);
  }

  // A tuple or list of at most `most`, or None.
  bool take_all(PyObject* objects, Array* arrays, Py_ssize_t most, bool writable = false) {
    if (objects == Py_None) return true;
    const bool is_list = PyList_Check(objects);
    if (!is_list && !PyTuple_Check(objects)) return false;
    const Py_ssize_t count = is_list ? PyList_Size(objects) : PyTuple_Size(objects);
    if (count > most) return false;
    for (Py_ssize_t k = 0; k < count; ++k) {
      if (!take(is_list ? PyList_GetItem(objects, k) : PyTuple_GetItem(objects, k), arrays[k], writable)) return false;
    }
    return true;
  }

  // Four arrays, one that has them one behind the other, or None.
  bool take_outputs(PyObject* objects, Array (&outputs)[4]) {
    if (objects == Py_None) return true;
    if (PyList_Check(objects) || PyTuple_Check(objects)) return take_all(objects, outputs, 4, true) && outputs[0].given();
    Array all;
    if (!take(objects, all, true) || all.dims != 4 || !all.is_real() || all.shape[0] != 4) return false;
    const int64_t bytes = all.size() / 4 * (all.type == 'd' ? sizeof(double) : sizeof(float));
    for (int k = 0; k < 4; ++k) {
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

  static constexpr const char* kFormName = "traj_integrator.SplineForm";

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

// Whether the error is one of these.
inline bool is_unfit() {
  return PyErr_ExceptionMatches(PyExc_TypeError) || PyErr_ExceptionMatches(PyExc_ValueError) ||
         PyErr_ExceptionMatches(PyExc_IndexError);
}

inline PyObject* unfit() {
  return raised({Wrong::kValue, "expected contiguous arrays or tensors on the CPU, of float32, float64, int32 or int64"});
}

// Runs a call on as many threads as torch would, without Python's lock where it is worth giving away; false: an error is set.
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

// The functions below return new references, or null with a Python error: TypeError, ValueError or IndexError where arguments
// do not fit, and nothing has been written.

// A tuple of four: the outputs, which are made unless the first is given, then None.
PyObject* forward_results(Call& call);

// A tuple of `used` of the gradients of action, four starts and four goals; made with as many rows as `sizes` says, None
// where that is negative, after as many None as `before`.
PyObject* vjp_results(Call& call, const int64_t (&sizes)[9], Py_ssize_t used, Py_ssize_t before);

// Functions of the module for autograd (python_autograd.cpp).
PyObject* py_step(PyObject* self, PyObject* const* args, Py_ssize_t count);
PyObject* py_record(PyObject* self, PyObject* const* args, Py_ssize_t count);
PyObject* py_backward(PyObject* self, PyObject* const* args, Py_ssize_t count);

}  // namespace traj_integrator
