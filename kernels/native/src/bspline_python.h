// Python bindings of the spline launchers.
#pragma once

#include <torch/csrc/utils/pybind.h>

namespace traj_integrator {

// Adds SplineForm, spline_forward, spline_vjp, spline_dt_gradient and set_general_spline_vjp to the extension.
void add_splines(pybind11::module_& module);

// spline_step(form, control_points, start, goal, start_index, goal_index, dt, dt_per_trajectory) -> Trajectory | None
//
// The public function in one call, as `step` for the other maps; start and goal are tuples of four.
PyObject* spline_step(PyObject*, PyObject* const* args, Py_ssize_t count);

}  // namespace traj_integrator
