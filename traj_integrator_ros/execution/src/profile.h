// A time-optimal profile of one joint as cubic pieces, as in `reference.pieces_of_profiles`.
#pragma once

namespace traj_integrator::execution {

struct Profile {
  const double* spans;  // [count], s
  const double* jerks;  // [count], rad/s^3
  long count;
  double begin[3];  // position, velocity, acceleration
};

struct ProfileEnd {
  double duration;  // s; NaN: the sum of the spans
  double state[3];
  bool velocity_only;
};

// Writes knots [count + 1] and coefficients [count, 6], and returns how many pieces have a length.
long pieces_of_profile(const Profile& profile, const ProfileEnd& end, double* knots, double* coefficients);

}  // namespace traj_integrator::execution
