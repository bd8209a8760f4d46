// Retiming: the times at which a path is passed, as early as limits of its joints allow. docs/retiming.md explains it.
#pragma once

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <vector>

#include "rows.h"

namespace traj_integrator::retiming {

// Kinds of limits: accelerations go from lowest (negative) to highest.
enum Kind { kVelocity, kLowest, kHighest, kJerk, kKinds };

// Limits of D joints by kind, and 1 / limit; infinite where there is none. Both are as long as whole vectors are.
struct Limits {
  std::vector<double> of[kKinds], inverse[kKinds];

  Limits() = default;
  Limits(int64_t dof, const double* const (&given)[kKinds]) {
    for (int kind = 0; kind < kKinds; ++kind) {
      of[kind].assign(whole_lanes(dof), given[kind] == nullptr ? INFINITY : 1.0);
      if (given[kind] != nullptr) std::copy_n(given[kind], dof, of[kind].begin());
    }
    invert();
  }
  Limits scaled(double velocity, double acceleration, double jerk) const {
    Limits made = *this;
    const double by[] = {velocity, acceleration, acceleration, jerk};
    for (int kind = 0; kind < kKinds; ++kind) {
      for (double& limit : made.of[kind]) limit *= by[kind];
    }
    made.invert();
    return made;
  }
  // Largest rates that jerk allows for a motion from rest to rest within `range` of every joint (Landau and
  // Kolmogorov). Larger limits mean nothing, and a second order that uses them is no motion to begin with.
  Limits reached_within(double range) const {
    Limits made = *this;
    const double half = range / 2;
    for (size_t j = 0; j < of[kJerk].size(); ++j) {
      const double jerk = of[kJerk][j], speed = std::min(of[kVelocity][j], std::cbrt(9.0 / 8 * half * half * jerk));
      const double acceleration = std::min(std::cbrt(3 * half * jerk * jerk), std::sqrt(2 * speed * jerk));
      made.of[kVelocity][j] = speed;
      made.of[kLowest][j] = std::max(of[kLowest][j], -acceleration);
      made.of[kHighest][j] = std::min(of[kHighest][j], acceleration);
    }
    made.invert();
    return made;
  }

 private:
  void invert() {
    for (int kind = 0; kind < kKinds; ++kind) {
      inverse[kind].resize(of[kind].size());
      std::transform(of[kind].begin(), of[kind].end(), inverse[kind].begin(), [](double limit) { return 1 / limit; });
    }
  }
};

// Motion along the path at its ends: ds/dt and its derivative.
struct Ends {
  double start_speed = 0, start_acceleration = 0, end_speed = 0, end_acceleration = 0;
  // A plan that is only slowed down, and rests at an end, may pass its time there at any rate.
  bool free_start = false, free_end = false;

  bool rests_before() const { return free_start || start_speed == 0; }
  bool rests_after() const { return free_end || end_speed == 0; }
  bool rests() const { return rests_before() && rests_after(); }
};

// The numbers are those of RetimeStatus in Python.
enum class Status : int64_t {
  kDone = 0,
  kStill = 1,          // all rows are equal
  kStartTooFast = 2,   // no motion from this speed keeps the limits
  kEndTooFast = 3,     // no motion reaches the speed at the end
  kNotConverged = 4,
  kExceeds = 5,        // a motion was found, but it exceeds a limit: the certificate says by how much
  kNotFinite = 6,      // a number that is not finite
  kTooShort = 7,       // the wanted duration is shorter than the shortest
  kTooLong = 8,        // the wanted duration cannot be reached from a moving start
  kWithRests = 9,      // within the limits, but with rests or at a constant rate where no solution was found
};

// Factor by which a motion has to be slowed as a whole if velocity, acceleration and jerk exceed their limits by
// ratios.
inline double stretch_for(const double* ratio) { return std::max({ratio[0], std::sqrt(ratio[1]), std::cbrt(ratio[2])}); }

inline bool has_motion(Status status) {
  return status == Status::kDone || status == Status::kExceeds || status == Status::kWithRests;
}

// Ratios up to which a motion counts as keeping its limits.
constexpr double kHeld = 1 + 1e-6;
// Factor on a ratio by which a limit is lowered, so that the next ratio is not above 1 again.
constexpr double kBeyond = 1 + 1e-5;
// Ratio down to which local tightening goes on; a uniform stretch does the rest.
constexpr double kAlmostHeld = 1 + 5e-4;

}  // namespace traj_integrator::retiming
