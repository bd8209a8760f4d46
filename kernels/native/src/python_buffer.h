// Python's limited API of 3.10, for one extension for all later versions, and arrays that are borrowed through it.
#pragma once

#define PY_SSIZE_T_CLEAN
#include <Python.h>

#include <cstring>

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

  // None gives no array. Returns false, without a Python error, where the object is no contiguous array of numbers.
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

// For functions of METH_FASTCALL.
template <class Function>
PyCFunction as_method(Function* function) {
  return reinterpret_cast<PyCFunction>(reinterpret_cast<void*>(function));
}

}  // namespace traj_integrator
