// Time-optimal motion along a path under limits of velocity and acceleration.
#pragma once

#include <cstdint>
#include <vector>

#include "limits.h"
#include "path.h"

namespace traj_integrator::retiming {

// Reachability analysis on a grid of the phase (Pham and Pham 2018), with x = (ds/dt)^2 linear in s on each interval.
//
// The linear programs of two variables are solved by Newton's method on the gap between the highest lower and the lowest
// upper bound of the acceleration u, which is concave and piecewise linear in x.
class SecondOrder {
 public:
  // Uniform intervals in every piece of the path, `intervals` in all (at least one for each piece).
  void set_grid(const Path& path, int64_t intervals);
  // The shortest motion; x <= 1 where only slowing is wanted.
  Status solve(const Limits& limits, const Ends& ends, bool slow_only);
  // Solves again with the limits tightened where ratios [3 N], velocity and acceleration of each interval (and jerk), exceed 1.
  // False if that fails; then the solution is as it was.
  bool tighten(const std::vector<double>& ratios, const Limits& limits, const Ends& ends);
  // Divides the speed everywhere.
  void stretch(double factor);

  double largest_start_speed() const;
  // What does not allow to begin faster: 0 velocity, 1 acceleration; and the joint.
  struct Binding {
    int kind;
    int64_t joint;
  };
  Binding binding_at_start(const Limits& limits) const;
  int64_t intervals() const { return static_cast<int64_t>(s_.size()) - 1; }
  const std::vector<double>& s() const { return s_; }
  const std::vector<double>& x() const { return x_; }
  const std::vector<double>& times() const { return t_; }
  int64_t piece(int64_t interval) const { return piece_[static_cast<size_t>(interval)]; }
  const double* derivatives(int64_t interval) const { return derivative_.data() + interval * 4 * path_->dof(); }

 private:
  // Rows of one interval, with that which reaches the next point (second_order.cpp).
  struct Rows;
  Rows rows_of(size_t interval) const;
  void form_rows(const Limits& limits, int64_t interval);
  Status sweep(const Ends& ends, size_t from);
  void set_times();

  const Path* path_ = nullptr;
  std::vector<double> s_, x_, t_;
  std::vector<int64_t> piece_;
  std::vector<double> derivative_;                          // [N, 4, D]: q', q'' at the begin, q', q'' at the end
  std::vector<double> low_, high_, slope_;                  // [N, 2 D]: low - slope x <= u <= high - slope x
  std::vector<double> bound_, reachable_, minimal_;         // x <= bound [N + 1]; K+; K-
  std::vector<double> scale_[2], inverse_velocity_;         // of velocity and acceleration, [N], <= 1; [D]
};

}  // namespace traj_integrator::retiming
