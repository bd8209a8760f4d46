// Time-optimal motion along a path under limits of velocity and acceleration.
#pragma once

#include <cmath>
#include <cstdint>
#include <vector>

#include "limits.h"
#include "path.h"
#include "rows.h"

namespace traj_integrator::retiming {

// Reachability analysis on a grid of the phase (Pham and Pham 2018), with x = (ds/dt)^2 linear in s on each interval.
//
// The linear programs of two variables are solved by Newton's method on the gap between the highest lower and the lowest
// upper bound of the acceleration u, which is concave and piecewise linear in x.
class SecondOrder {
 public:
  // The shortest motion, on uniform intervals in every piece of the path, `intervals` in all (at least one for each piece);
  // x <= 1 where only slowing is wanted.
  Status solve(const Path& path, int64_t intervals, const Limits& limits, const Ends& ends, bool slow_only);
  // Solves again with the limits tightened where ratios [3 N], velocity and acceleration of each interval (and jerk), exceed 1.
  // False if that fails; then the solution is as it was.
  bool tighten(const std::vector<double>& ratios);
  // Solves again with rests at points of the grid, too. If that fails, the solution is none.
  Status rest_at(const std::vector<int64_t>& points);
  // Divides the speed everywhere.
  void stretch(double factor);
  double largest_start_speed() const { return std::sqrt(reachable_.front()); }
  // The limit that prevents a faster begin: 0 velocity, 1 acceleration; and its joint.
  struct Binding {
    int kind;
    int64_t joint;
  };
  Binding binding_at_start() const;
  int64_t dof() const { return dof_; }
  int64_t intervals() const { return static_cast<int64_t>(s_.size()) - 1; }
  const std::vector<double>& s() const { return s_; }
  const std::vector<double>& x() const { return x_; }
  const std::vector<double>& times() const { return t_; }
  int64_t piece(int64_t interval) const { return piece_[interval]; }
  // Position, velocity, or their derivatives by s, at a point, [D].
  const double* position(int64_t point) const { return position_.data() + point * width_; }
  const double* derivative(int64_t point, int order) const {
    return derivative_.data() + (point < intervals() ? 4 * point + order - 1 : 4 * point - 3 + order) * width_;
  }

 private:
  void set_grid(const Path& path, int64_t intervals);
  Grid grid();
  Reach rows_of(int64_t interval) const;
  Status sweep();
  void set_times();

  Limits limits_;
  Ends ends_;
  int64_t dof_ = 0, width_ = 0;
  std::vector<double> s_, x_, t_;
  std::vector<int64_t> piece_;
  std::vector<double> position_, derivative_;               // [N + 1, width]; layout of Grid
  std::vector<double> low_, high_, slope_, bound_;          // like Grid's
  std::vector<double> reachable_, minimal_;                 // K+; K-
  std::vector<double> scale_[2];                            // scales of velocity and acceleration, [N], <= 1
  std::vector<char> formed_, lowered_;                      // since the last sweep: rows of intervals, K of points
};

}  // namespace traj_integrator::retiming
