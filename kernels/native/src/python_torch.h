// What the extension knows of torch: its Python interface, and DLPack's functions. It links none of it.
#pragma once

#include <utility>

#include "dlpack.h"
#include "python_buffer.h"

namespace traj_integrator {

class Object {  // owned
 public:
  explicit Object(PyObject* object = nullptr) : object_(object) {
    if (object_ == nullptr) PyErr_Clear();
  }
  Object(const Object&) = delete;
  Object(Object&& other) noexcept : object_(std::exchange(other.object_, nullptr)) {}
  ~Object() { Py_XDECREF(object_); }
  PyObject* get() const { return object_; }

 private:
  PyObject* object_;
};

// Set once, by `use`; null before.
struct Torch {
  PyObject *tensor, *parameter, *get_num_threads, *from_dlpack, *is_grad_enabled, *forward_ad;
  PyObject* dtypes[4];  // float32, float64, int32, int64
  PyObject* modes[4];   // functions: whether transforms, dispatch modes, function modes or tracing are active
  // torch 2.10 and later, else null.
  int (*describe)(void* tensor, DLTensor* array);
  int (*import_object)(DLVersionedTensor* tensor, void** object);
};
extern Torch torch;

// use(Tensor, Parameter, get_num_threads, _from_dlpack, is_grad_enabled, forward_ad, (float32, float64, int32, int64),
//     four functions of modes, Tensor.__dlpack_c_exchange_api__ or None)
PyObject* py_use(PyObject* self, PyObject* const* args, Py_ssize_t count);

bool is_tensor(PyObject* object);
// A contiguous tensor on the CPU; false, without a Python error: it is none, or of no type for the loops.
bool read_tensor(PyObject* tensor, Array& array);
// One that `read_tensor` reads: the same, or a copy. Null without a Python error.
Object readable(PyObject* tensor);

// Whether nothing is active that has to see torch's operators: transforms, modes, tracing, forward mode.
bool is_ordinary();
bool requires_grad(PyObject* tensor);
bool is_grad_enabled();

}  // namespace traj_integrator
