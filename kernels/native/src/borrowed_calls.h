// The maps on memory borrowed from Python: no tensor is made, nothing is allocated, nothing is copied.
#pragma once

#include <torch/csrc/python_headers.h>

namespace traj_integrator {

// Both return True, or False, having done nothing, if an argument is not a contiguous array of the right type and
// shape: then the caller converts it or raises an error.

// step_into(map, action, p0, v0, a0, start_index, dt, out)
// [B, Ha, D], three times [1 or B or S, D] or None, [B] int32 or int64 or None, float64 [1 or B, 1 or Ha], [4, B, H, D].
PyObject* step_into(PyObject*, PyObject* const* args, Py_ssize_t count);

// vjp_into(map, grad_p, grad_v, grad_a, grad_j, start_index, dt, truncate_terminal_gradient, action, p0, v0, a0)
// Four times [B, H, D] or None, but one at least; the last four are results, [B, Ha, D] and [S, D].
PyObject* vjp_into(PyObject*, PyObject* const* args, Py_ssize_t count);

}  // namespace traj_integrator
