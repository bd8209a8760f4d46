// The control maps, numbered. Needs nothing but the C++ standard library.
#pragma once

#include <cstdint>

namespace traj_integrator {

// How actions become a trajectory (docs/kernels.md has the formulas).
enum class ControlMap : int64_t {
  kCliqueBackward = 0,                 // positions, backward differences
  kCliqueCentral = 1,                  // positions, five-point central differences; the horizon grows by 4
  kAccelerationZoh = 2,                // accelerations, each held over its step
  kAccelerationSemiImplicitEuler = 3,  // accelerations, position moved by the velocity at the end of the step
  kVelocity = 4,                       // velocities, each held over its step
  kJerk = 5,                           // jerks, each held over its step
};

}  // namespace traj_integrator
