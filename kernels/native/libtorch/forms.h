// The forms of splines that a program uses, each made once.
#pragma once

#include "spline_form.h"
#include "traj_integrator/spline.h"

namespace traj_integrator {

// Throws c10::ValueError where there is no such form.
const SplineForm& form_of(const SplineOptions& options);

}  // namespace traj_integrator
