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
  bool set(PyObject* object, PyObject* value) const { return PyObject_SetAttr(object, text_, value) == 0; }

 private:
  PyObject* text_;
};

// Set once, by `use`; null before.
struct Torch {
  PyObject *tensor, *parameter, *get_num_threads, *to_dlpack, *from_dlpack, *is_grad_enabled, *forward_ad, *increment_version;
  PyObject* modes[4];  // functions: whether transforms, dispatch modes, function modes or tracing are active
  const DLExchange* exchange;  // of torch 2.10 and later, else null
};
extern Torch torch;

// use(Tensor, Parameter, get_num_threads, _to_dlpack, _from_dlpack, is_grad_enabled, forward_ad, increment_version, four
//     functions of modes, Tensor.__dlpack_c_exchange_api__ or None)
PyObject* py_use(PyObject* self, PyObject* args);

bool is_tensor(PyObject* object);
// A contiguous tensor on the CPU; false, without a Python error, if it is no tensor, or has a type without loops.
bool read_tensor(PyObject* tensor, Array& array);
// A tensor that `read_tensor` can read: the same one, or a copy. Null without a Python error.
Object readable(PyObject* tensor);

// Return whether nothing is active that has to see torch's operators: transforms, modes, tracing; if ordinary, nor
// forward mode.
bool has_no_modes();
bool is_ordinary();
bool requires_grad(PyObject* tensor);
bool is_grad_enabled();

// Memory of the caller that is written to.

// A tensor without its graph, if autograd can follow what is written to it, else null: a view that an earlier call returned
// has a graph, but what counts is the memory that it shows.
Object memory_of(PyObject* tensor);
Object view_of(PyObject* tensor);
bool is_leaf(PyObject* tensor);
// How often it has been written.
int64_t version_of(PyObject* tensor);
// Says that a tuple of tensors has been; false: an error is set.
bool mark_written(PyObject* tensors);

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

// Memory that is kept for the next results, within the limit of TRAJ_INTEGRATOR_KEPT_MIB (default 64 MiB; 0 keeps nothing).
size_t kept_bytes();
void release_kept_memory();

}  // namespace traj_integrator
