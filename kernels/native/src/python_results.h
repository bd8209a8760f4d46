// Results of calls from Python, made here as tensors.
#pragma once

#include "python_call.h"

namespace traj_integrator {

// The largest number of elements of these arrays.
int64_t elements_of(const Array (&outputs)[kOutputs]);

// The arrays that were made here, as tensors; None in place of the others. A tuple, or null with an error.
PyObject* handed_over(Result* results, Py_ssize_t count);

// The outputs, which are made unless the first is given, then None.
PyObject* forward_results(Call& call);

// Makes the gradients of a vjp with as many rows as `sizes` says, unless that is negative; false: an error is set.
bool make_gradients(Call& call, const int64_t (&sizes)[kValues], Result* results);

PyObject* py_records(PyObject* self, PyObject* const* args, Py_ssize_t count);

}  // namespace traj_integrator
