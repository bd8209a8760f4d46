// Python's limited API of 3.10, for one extension for all later versions, and arrays that are borrowed through it.
#pragma once

#define PY_SSIZE_T_CLEAN
#include <Python.h>

#include <algorithm>
#include <cstring>
#include <initializer_list>
#include <vector>

#include "array.h"

#if Py_LIMITED_API < 0x030B0000
// The buffer protocol is in the limited API from 3.11 on; 3.10 exports the same functions for the same structure.
extern "C" {
typedef struct {
  void* buf;
  PyObject* obj;
  Py_ssize_t len, itemsize;
  int readonly, ndim;
  char* format;
  Py_ssize_t *shape, *strides, *suboffsets;
  void* internal;
} Py_buffer;
PyAPI_FUNC(int) PyObject_GetBuffer(PyObject* object, Py_buffer* view, int flags);
PyAPI_FUNC(void) PyBuffer_Release(Py_buffer* view);
}
#define PyBUF_WRITABLE 0x0001
#define PyBUF_FORMAT 0x0004
#define PyBUF_C_CONTIGUOUS (0x0020 | 0x0010 | 0x0008)
#endif

namespace traj_integrator {

// The arrays of one call: numpy arrays, and whatever else has the buffer protocol.
template <int most = 64>
class BorrowedBuffers {
 public:
  BorrowedBuffers() = default;
  BorrowedBuffers(const BorrowedBuffers&) = delete;
  BorrowedBuffers& operator=(const BorrowedBuffers&) = delete;
  ~BorrowedBuffers() {
    while (count_ > 0) PyBuffer_Release(&views_[--count_]);
  }

  // None gives no array. Returns false, without a Python error, if the object is no contiguous array of numbers.
  bool take(PyObject* object, Array& array, bool writable = false) {
    array = {};
    if (object == Py_None) return true;
    if (count_ == most) return false;
    Py_buffer& view = views_[count_];
    if (PyObject_GetBuffer(object, &view, PyBUF_C_CONTIGUOUS | PyBUF_FORMAT | (writable ? PyBUF_WRITABLE : 0)) != 0) {
      PyErr_Clear();
      return false;
    }
    ++count_;
    if (view.format == nullptr || std::strlen(view.format) != 1 || view.ndim > Array::kMostDims) return false;
    static_assert(sizeof(long) == sizeof(int64_t));
    array.data = view.buf;
    array.type = *view.format == 'q' ? 'l' : *view.format;
    array.dims = view.ndim;
    for (int dim = 0; dim < view.ndim; ++dim) array.shape[dim] = view.shape[dim];
    return true;
  }

 private:
  Py_buffer views_[most];
  int count_ = 0;
};

// The arguments of one call, taken one after the other; sizes of shapes may be any. Where one is wrong, that one and all later
// ones are empty.
class ArrayArguments {
 public:
  static constexpr int64_t kAny = -1;

  ArrayArguments(PyObject* const* given, Py_ssize_t count) : next_(given), end_(given + count) {}

  // Returns whether all arguments were taken, and are correct.
  bool fit() const { return fit_ && next_ == end_; }
  // Rejects arguments that do not belong together.
  void require(bool fits) { fit_ = fit_ && fits; }

  Array array(std::initializer_list<int64_t> shape, char type = 'd', bool writable = false) {
    Array taken;
    require(next_ != end_ && buffers_.take(*next_++, taken, writable));
    require(taken.type == type && taken.dims == static_cast<int>(shape.size()));
    require(std::equal(shape.begin(), shape.end(), taken.shape, [](int64_t of, int64_t got) { return of == kAny || of == got; }));
    return fit_ ? taken : Array{};
  }
  double* doubles(std::initializer_list<int64_t> shape) { return array(shape).as<double>(); }
  double* out(std::initializer_list<int64_t> shape) { return array(shape, 'd', true).as<double>(); }
  // An array, or none for None.
  Array optional(std::initializer_list<int64_t> shape, char type = 'd', bool writable = false) {
    if (!is_none()) return array(shape, type, writable);
    ++next_;
    return {};
  }
  bool is_none() const { return next_ != end_ && *next_ == Py_None; }
  bool is_number() const { return next_ != end_ && PyFloat_Check(*next_); }
  double number() {
    require(is_number());
    return fit_ ? PyFloat_AsDouble(*next_++) : 0;
  }
  int64_t integer() {
    require(next_ != end_ && PyLong_Check(*next_));
    return fit_ ? PyLong_AsLongLong(*next_++) : 0;
  }
  bool flag() {
    require(next_ != end_);
    return fit_ && *next_++ == Py_True;
  }
  PyObject* list() {
    require(next_ != end_ && PyList_Check(*next_));
    return fit_ ? *next_++ : nullptr;
  }
  std::vector<double> numbers() {
    PyObject* const given = list();
    std::vector<double> taken(given == nullptr ? 0 : PyList_Size(given));
    for (size_t i = 0; i < taken.size(); ++i) {
      PyObject* const item = PyList_GetItem(given, static_cast<Py_ssize_t>(i));
      require(PyFloat_Check(item));
      taken[i] = fit_ ? PyFloat_AsDouble(item) : 0;
    }
    return taken;
  }

 private:
  PyObject* const* next_;
  PyObject* const* end_;
  bool fit_ = true;
  BorrowedBuffers<32> buffers_;
};

// For functions of METH_FASTCALL.
template <class Function>
PyCFunction as_method(Function* function) {
  return reinterpret_cast<PyCFunction>(reinterpret_cast<void*>(function));
}

// A method that raises TypeError where its arguments do not fit, and has written nothing then.
template <PyObject* (*function)(ArrayArguments&)>
PyMethodDef method_of_arrays(const char* name, const char* what) {
  const auto called = +[](PyObject*, PyObject* const* given, Py_ssize_t count) -> PyObject* {
    ArrayArguments arguments(given, count);
    PyObject* const result = function(arguments);
    if (!arguments.fit()) {
      PyErr_SetString(PyExc_TypeError, "arrays: expected contiguous float64 or int64, of shapes that belong together");
    }
    return result;
  };
  return {name, as_method(called), METH_FASTCALL, what};
}

}  // namespace traj_integrator
