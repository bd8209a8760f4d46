// Python's limited API of 3.10, for one extension for all later versions, and arrays that are borrowed through it.
#pragma once

#define PY_SSIZE_T_CLEAN
#include <Python.h>

#include <algorithm>
#include <cstring>
#include <initializer_list>
#include <new>
#include <tuple>
#include <type_traits>

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

// Does work; other threads use Python meanwhile, if it is released.
template <class Work>
auto aside(bool is_released, Work work) {
  struct Turn {
    PyThreadState* thread;
    ~Turn() {
      if (thread != nullptr) PyEval_RestoreThread(thread);
    }
  };
  const Turn turn{is_released ? PyEval_SaveThread() : nullptr};
  return work();
}

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

// A parameter of a function for Python: an array of so many dimensions. One of constant numbers may be read-only; None is
// no array, where that is allowed.
template <class Number, int kDims, bool kMayLack = false>
struct Given : Array {
  Number* begin() const { return as<Number>(); }
  // Sizes below 0 may be any; an array that lacks fits.
  bool is(std::initializer_list<int64_t> sizes) const {
    return !given() || std::equal(sizes.begin(), sizes.end(), shape, [](int64_t of, int64_t got) { return of < 0 || of == got; });
  }
};
template <int kDims>
using In = Given<const double, kDims>;
template <int kDims>
using Maybe = Given<const double, kDims, true>;
template <int kDims>
using Out = Given<double, kDims>;
template <int kDims>
using Integers = Given<int64_t, kDims>;

struct Unfit {};
// Rejects arguments that do not belong together, before anything is written.
inline void require(bool fits) {
  if (!fits) throw Unfit{};
}

using Borrowed = BorrowedBuffers<32>;

inline void take(PyObject* object, Borrowed&, double& number) {
  require(PyFloat_Check(object));
  number = PyFloat_AsDouble(object);
}
inline void take(PyObject* object, Borrowed&, int64_t& number) {
  require(PyLong_Check(object));
  number = PyLong_AsLongLong(object);
}
inline void take(PyObject* object, Borrowed&, bool& flag) { flag = object == Py_True; }
template <class Number, int kDims, bool kMayLack>
void take(PyObject* object, Borrowed& buffers, Given<Number, kDims, kMayLack>& array) {
  constexpr char kType = std::is_same_v<std::remove_const_t<Number>, double> ? 'd' : 'l';
  require(buffers.take(object, array, !std::is_const_v<Number>));
  require(array.given() ? array.type == kType && array.dims == kDims : kMayLack);
}

inline PyObject* given_back(bool flag) { return PyBool_FromLong(flag); }
inline PyObject* given_back(int64_t number) { return PyLong_FromLongLong(number); }

// For functions of METH_FASTCALL.
template <class Function>
PyCFunction as_method(Function* function) {
  return reinterpret_cast<PyCFunction>(reinterpret_cast<void*>(function));
}

template <class Result, class... Parameters>
PyObject* call(Result (*function)(Parameters...), PyObject* const* arguments, Py_ssize_t count) {
  std::tuple<std::remove_cvref_t<Parameters>...> taken;
  Borrowed buffers;
  try {
    require(count == sizeof...(Parameters));
    std::apply([&](auto&... each) { (take(*arguments++, buffers, each), ...); }, taken);
    if constexpr (!std::is_void_v<Result>) return given_back(std::apply(function, taken));
    std::apply(function, taken);
    Py_RETURN_NONE;
  } catch (const Unfit&) {
    PyErr_SetString(PyExc_TypeError, "arrays: expected contiguous float64 or int64, of shapes that belong together");
  } catch (const std::bad_alloc&) {
    PyErr_NoMemory();
  }
  return nullptr;
}

// A method whose arguments are those of a function. It raises TypeError where they do not fit.
template <auto function>
PyMethodDef method(const char* name, const char* what) {
  return {name, as_method(+[](PyObject*, PyObject* const* given, Py_ssize_t count) { return call(function, given, count); }),
          METH_FASTCALL, what};
}

}  // namespace traj_integrator
