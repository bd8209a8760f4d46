// Results of calls from Python, made here as tensors, and the functions that autograd's nodes call (python_autograd.cpp).
#pragma once

#include "python_call.h"

namespace traj_integrator {

// The largest number of elements of these arrays.
int64_t elements_of(const Array (&outputs)[kOutputs]);

// The arrays that were made here, as tensors; None in place of the others, and before them. A tuple, or null with an
// error.
PyObject* handed_over(Result* results, Py_ssize_t count, Py_ssize_t before = 0);

// The outputs, which are made unless the first is given, then None.
PyObject* forward_results(Call& call);

// Makes the gradients of a vjp with as many rows as `sizes` says, unless that is negative; false: an error is set.
bool make_gradients(Call& call, const int64_t (&sizes)[kValues], Result* results);

// Makes the gradient of dt, in the shape and the type in which it was given; false: an error is set.
bool make_dt_gradient(const Call& call, const Array& dt, Result& result);

// Methods.
PyObject* py_step(PyObject* self, PyObject* const* args, Py_ssize_t count);
PyObject* py_step_into(PyObject* self, PyObject* const* args, Py_ssize_t count);
PyObject* py_cost(PyObject* self, PyObject* const* args, Py_ssize_t count);
PyObject* py_record(PyObject* self, PyObject* const* args, Py_ssize_t count);
PyObject* py_backward(PyObject* self, PyObject* const* args, Py_ssize_t count);
PyObject* py_are_plain(PyObject* self, PyObject* const* args, Py_ssize_t count);

}  // namespace traj_integrator
