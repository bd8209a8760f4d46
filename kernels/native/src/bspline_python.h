// Python bindings of the spline launchers.
#pragma once

#include <torch/csrc/utils/pybind.h>

namespace traj_integrator {

// Adds SplineForm, spline_forward, spline_vjp and spline_dt_gradient to the extension.
void add_splines(pybind11::module_& module);

}  // namespace traj_integrator
