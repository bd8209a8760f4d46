// The tables of `splines/weights.py` for programs without Python: what control points and states weigh.
#pragma once

#include "bspline_launch.h"
#include "traj_integrator/spline.h"

namespace traj_integrator {

// The form with its tables, made once for each degree, number of rows and layout. Throws c10::ValueError.
SplineForm spline_form(const SplineOptions& options);

}  // namespace traj_integrator
