// Arguments of the fast path from Python: used without conversion, or refused.
#pragma once

#include <torch/csrc/autograd/python_variable.h>
#include <torch/csrc/utils/object_ptr.h>

#include "launch.h"
#include "plain.h"

namespace traj_integrator {

// None counts as an undefined tensor; returns false if the object is neither None nor a plain tensor on the CPU.
inline bool unpack(PyObject* object, at::Tensor& tensor) {
  if (object == Py_None) return true;
  if (!THPVariable_CheckExact(object)) return false;
  tensor = THPVariable_Unpack(object);
  return is_plain(tensor);
}

// The same, but all of them are on the device of the first: the CPU, or a device for which kernels are set.
inline bool unpack_beside(const at::Tensor& first, PyObject* object, at::Tensor& tensor) {
  if (object == Py_None) return true;
  if (!THPVariable_CheckExact(object)) return false;
  tensor = THPVariable_Unpack(object);
  return is_plain(tensor) && (!first.defined() || tensor.device() == first.device());
}

// A tuple of at most four.
inline bool unpack_all(PyObject* tuple, OptionalTensors& tensors) {
  if (!PyTuple_CheckExact(tuple) || PyTuple_GET_SIZE(tuple) > static_cast<Py_ssize_t>(tensors.size())) return false;
  for (Py_ssize_t k = 0; k < PyTuple_GET_SIZE(tuple); ++k) {
    if (!unpack(PyTuple_GET_ITEM(tuple, k), tensors[k])) return false;
  }
  return true;
}

// A number of seconds, or a plain tensor on the action's device that does not require grad, as [1 or B, 1 or Ha].
bool unpack_dt(PyObject* object, bool per_trajectory, const at::Tensor& action, at::Tensor& dt);

// A Trajectory of the four; null with a Python error set if it cannot be created.
PyObject* wrap_trajectory(Outputs&& outputs);

// `u_act`, buffers and so on of the drop-in kernels: see dropin.cpp.
PyObject* step_with_buffers(PyObject*, PyObject* const* args, Py_ssize_t count);

}  // namespace traj_integrator
