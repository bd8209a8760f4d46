// The extension's view of torch: its Python interface, and DLPack's functions. It links none of it.
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

// The name of an attribute, made once: a string costs as much as the rest of a look-up.
class Name {
 public:
  explicit Name(const char* text) : text_(PyUnicode_InternFromString(text)) {}
  Object of(PyObject* object) const { return Object(PyObject_GetAttr(object, text_)); }

 private:
  PyObject* text_;
};

// Set once, by `use`; null before.
struct Torch {
  PyObject *tensor, *parameter, *get_num_threads, *to_dlpack, *from_dlpack, *is_grad_enabled, *forward_ad;
  PyObject* modes[4];  // functions: whether transforms, dispatch modes, function modes or tracing are active
  const DLExchange* exchange;  // of torch 2.10 and later, else null
};
extern Torch torch;

// use(Tensor, Parameter, get_num_threads, _to_dlpack, _from_dlpack, is_grad_enabled, forward_ad, four functions of modes,
//     Tensor.__dlpack_c_exchange_api__ or None)
PyObject* py_use(PyObject* self, PyObject* args);

bool is_tensor(PyObject* object);
// A contiguous tensor on the CPU; false, without a Python error, if it is no tensor, or has a type without loops.
bool read_tensor(PyObject* tensor, Array& array);
// A tensor that `read_tensor` can read: the same one, or a copy. Null without a Python error.
Object readable(PyObject* tensor);

// Returns whether nothing is active that has to see torch's operators: transforms, modes, tracing, forward mode.
bool is_ordinary();
bool requires_grad(PyObject* tensor);
bool is_grad_enabled();

// Results for Python, as DLPack: torch makes a tensor of them, without a copy (results.cpp).

// An uninitialized contiguous array, owned until it is handed over.
class Result {
 public:
  Result() = default;
  Result(const Result&) = delete;
  Result& operator=(const Result&) = delete;
  ~Result();

  // `array` is the memory; throws std::bad_alloc. That of larger results is kept from earlier ones, and begins at another
  // place of a page than arrays that the loops go through at the same time.
  void make(char type, std::initializer_list<int64_t> shape, Array& array, std::initializer_list<const Array*> beside = {});
  bool is_made() const { return owner_ != nullptr; }
  // Returns a new reference to a tensor; null with a Python error.
  PyObject* hand_over();

 private:
  struct Owner;
  Owner* owner_ = nullptr;
};

}  // namespace traj_integrator
