// Time-optimal motion along a path under limits of velocity, acceleration and jerk.
#pragma once

#include <cstdint>
#include <vector>

#include "base_law.h"
#include "limits.h"
#include "path.h"
#include "rows.h"

namespace traj_integrator::retiming {

// The gradient of the duration, to be written: derivatives by the path's Q1, Q2, Q3 at the points, and where those are.
struct Gradient {
  double* adjoint;   // [P, 3, D]
  double* phase;     // [P, 4]: s and its derivatives by tau
  int64_t* piece;    // [P]
  double* limits;    // [4, D], to be added to: derivatives by the logarithms of velocity, lowest, highest, jerk
};

// Optimizes y(tau) = (d tau / dt)^2 of a base law s(tau), a uniform quadratic B-spline with coefficients b, by a primal-dual
// interior-point method whose Newton matrix is pentadiagonal; jerk rows, which are not convex, are linearized again in every
// iteration. u = y' / 2, w = y'' / 2.
class ThirdOrder {
 public:
  // `base` has to be in place; `slow_only`: y <= 1. `part`: how much of the limits is used. Limits are kept where rows are
  // formed, and between them as far as tightening on the way does it.
  Status solve(const Path& path, const Limits& limits, const Ends& ends, bool slow_only, double part);
  // The largest constant rate that keeps the limits where rows are formed: not optimal, but always found. Its gradient
  // is NaN.
  void keep_rate(const Path& path, const Limits& limits);
  // Solves again with the limits tightened where ratios [3 N], velocity, acceleration, jerk of each interval, exceed 1.
  // False if that fails; then the solution is as it was.
  bool tighten(const std::vector<double>& ratios);
  void stretch(double factor);
  // Takes longer by about half this part, the more the farther from moving ends, which stay.
  void slow(double part);
  // The time at the part e of an interval.
  double time_at(int64_t interval, double e) const { return t_[interval] + (e == 0 ? 0 : time_within(interval, e)); }
  // y, u and w at a place.
  void rate_at(int64_t interval, double e, double* yuw) const;

  const std::vector<double>& times() const { return t_; }
  const std::vector<KnotPlace>& knots() const { return knots_; }
  // Gradient of a solution, with base law, grid, tightening and stretch held constant.
  void gradient(const Gradient& out) const;
  int64_t dof() const { return dof_; }
  int64_t gradient_points() const { return slow_.padded + fast_.padded; }
  int64_t iterations = 0;  // in all

  BaseLaw base;
  double tolerance = 1e-5;

 private:
  void form(const Path& path, const Limits& limits);
  void set_scales();
  void set_begin(const Ends& ends);
  double largest_constant() const;
  bool converges(const Ends& ends, double part, bool careful);
  // From slacks at the rows' values, at least `floor`, and multipliers for a barrier.
  void begin(double floor, double barrier);
  double rows() const;  // which are formed
  // Takes a step, and sums up the matrix and the right sides.
  void sum_up(const Advance& last);
  // Leaves out rows that are far from binding.
  void choose_rows();
  // Checks all rows again; returns whether one that was left out is violated.
  bool is_missed();
  // Steps until the gap is `tolerance`, and no row that was left out is missed.
  bool finish(bool patient);
  // Steps until the gap is that small, at most so many, and not many short ones unless `patient`.
  bool iterate(double gap, bool patient);
  void gather();
  void solve_linear();
  // Lowers the scales of intervals in which a limit is exceeded on a fine grid.
  void tighten_between();
  double time_within(int64_t interval, double e) const;
  void set_times();

  int64_t dof_ = 0;
  bool fixed_begin_ = false, fixed_end_ = false, slow_only_ = false, careful_ = false, widens_ = false;
  double stretched_ = 1, gap_ = 0, least_ = 0;  // the last two in the form of Sums, for all rows
  std::vector<KnotPlace> knots_;
  Points slow_, fast_, fine_;  // rows of velocity and acceleration; of jerk; certificate
  std::vector<double> inverse_[kKinds], inverse_jerk_;  // as Limits has them; with sqrt(Y)
  std::vector<double> scale_[3];    // parts of the limits, of velocity, acceleration and jerk, for each interval
  std::vector<double> sums_[kSums]; // for each interval, and two more on both sides
  std::vector<double> b_, db_, diagonal_[3], right_[3], t_;  // db_ and diagonals: two more
};

}  // namespace traj_integrator::retiming
