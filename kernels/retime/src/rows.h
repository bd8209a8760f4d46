// The rows of the interior-point method: constraints at points of the path, vectorized over the points.
#pragma once

#include <cstddef>
#include <cstdint>

namespace traj_integrator::retiming {

// Points are padded to a multiple of this, for every instruction set.
constexpr int64_t kLanes = 8;

// Constraints |value| <= limit of D joints at n points: slack z and multiplier l of the upper and the lower side, and their steps.
struct Rows {
  int64_t n, dof;
  const double *q1, *q2, *q3;   // [D, n]: derivatives of the path by the base law's time; q3 for jerk only
  const double* scale;          // [n]: 1 / (part of the limit that may be used)
  const double *upper, *lower;  // [D]: 1 / limit; for jerk sqrt(Y) / limit, and 1 / limit for the ratios
  double *z[2], *l[2], *dz[2], *dl[2];  // [D, n]
};

// What varies with the point: [n] each. r = (y / Y)^(-1/2), slope_r its derivative by y.
struct State {
  const double *y, *u, *w, *r, *slope_r;
};
struct Step {
  const double *y, *u, *w;
};

// Sums over the joints at each point, [n] each: of the matrix (yy yu uu, and yw uw ww for jerk), of three right sides (y u w
// each) and of z l, and the least row (negative: not kept).
struct Sums {
  double* matrix[6];
  double* right[9];
  double *gap, *least;
};

// Largest -dz / z and -dl / l at each point, [n].
struct Ratios {
  double *z, *l;
};

struct RowLoops {
  // Takes the last step (times primal, dual), raises z to the rows' values, and sums up.
  void (*acceleration_sums)(const Rows&, const State&, double primal, double dual, const Sums&);
  void (*jerk_sums)(const Rows&, const State&, double primal, double dual, const Sums&);
  // Steps dz and dl for the step of y, u, w, and a barrier mu.
  void (*acceleration_steps)(const Rows&, const State&, const Step&, double mu, const Ratios&);
  void (*jerk_steps)(const Rows&, const State&, const Step&, double mu, const Ratios&);
  // Accelerations (jerks; root_y = y^(1/2)) relative to the upper and to the lower limits, [2, D, n].
  void (*acceleration_ratios)(const Rows&, const State&, double* ratio);
  void (*jerk_ratios)(const Rows&, const State&, const double* root_y, double* ratio);
  // r and its slope, where y = scale r^-2.
  void (*rates)(int64_t n, const double* y, double scale, double* r, double* slope_r);
  // From sums over y, u, w to those over the three coefficients of each point, in place: matrix 00 01 02 11 12 22, right
  // sides 0 1 2 each. `has_w`: whether rows depend on w.
  void (*to_coefficients)(int64_t n, const double* const weight[6], const double curvature[3], bool has_w, const Sums&);
};

// For the instruction set of this CPU. The results are the same to the last bit on each of them.
const RowLoops& row_loops();

}  // namespace traj_integrator::retiming
