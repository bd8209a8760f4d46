// The quadratic cost on memory borrowed from Python, as in borrowed_calls.h.
#pragma once

#include <torch/csrc/python_headers.h>

namespace traj_integrator {

// quadratic_cost_into(map, start, start_index, goal, goal_index, action, dt, terms, cost, grad_action, grad_ends) -> bool
//
// map is a number, or a SplineForm. start and goal are tuples of four [1 or B or S, D] or None, all None for no goal;
// terms is a tuple of four times six arrays or None: weight, target, terminal weight, limit weight, lower and upper
// limit. Results: cost [B], grad_action [B, Ha, D] or None, and a tuple of eight [B, D] in float64 or None, the
// gradients of start and goal, not summed over a pool. Returns False, having done nothing, if an argument is not a
// contiguous array of the right type and shape.
PyObject* quadratic_cost_into(PyObject*, PyObject* const* args, Py_ssize_t count);

}  // namespace traj_integrator
