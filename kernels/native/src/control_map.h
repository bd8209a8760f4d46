// The control maps. Needs nothing but the C++ standard library.
#pragma once

#include <cstdint>

namespace traj_integrator {

// How actions become a trajectory (docs/kernels.md has the formulas).
enum class ControlMap : int64_t {
  kClique,                         // positions, backward differences
  kCliqueCentral,                  // positions, five-point central differences
  kAccelerationZoh,                // accelerations, each held over its step
  kAccelerationSemiImplicitEuler,  // accelerations, position moved by the velocity at the end of the step
  kVelocity,                       // velocities, each held over its step
  kJerk,                           // jerks, each held over its step
};

// The properties of a map that every layer needs.
struct ControlMapRow {
  ControlMap map;
  const char* name;       // as in Python's MAPS
  int64_t extra_horizon;  // output rows beyond the actions
  bool one_dt;            // step lengths may not differ along the horizon
};

// One row for each map, in the order of the enumeration.
inline constexpr ControlMapRow kControlMaps[] = {
    {ControlMap::kClique, "clique", 0, false},
    {ControlMap::kCliqueCentral, "clique_central", 4, true},
    {ControlMap::kAccelerationZoh, "acceleration_zoh", 0, false},
    {ControlMap::kAccelerationSemiImplicitEuler, "acceleration_semi_implicit_euler", 0, false},
    {ControlMap::kVelocity, "velocity", 0, false},
    {ControlMap::kJerk, "jerk", 0, false},
};

constexpr const ControlMapRow& row_of(ControlMap map) { return kControlMaps[static_cast<int64_t>(map)]; }

// Number of rows that `action_horizon` actions give.
constexpr int64_t output_horizon(ControlMap map, int64_t action_horizon) { return action_horizon + row_of(map).extra_horizon; }

}  // namespace traj_integrator
