// A smooth law s(tau) to begin with: the third order's motion is s(tau(t)), with y = (d tau / dt)^2 to be found.
#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

#include "limits.h"
#include "second_order.h"

namespace traj_integrator::retiming {

// A uniform cubic B-spline of `intervals` steps h.
struct BaseLaw {
  double h = 0;
  std::vector<double> c;  // [intervals + 3]

  int64_t intervals() const { return static_cast<int64_t>(c.size()) - 3; }
  // s and its derivatives by tau, at the part e of an interval.
  void evaluate(int64_t interval, double e, double* s) const;  // s[4]
  // The part e of an interval at which s is reached.
  double part_at(int64_t interval, double s) const;

  // The second order's motion, averaged over a window of `width` times the time that accelerations take to build up.
  void smooth(const SecondOrder& motion, const Limits& limits, const Ends& ends, int64_t dof, int64_t intervals,
              double width);
  // The plan's own time: s = tau.
  void identity(double begin, double end, int64_t intervals);
};

}  // namespace traj_integrator::retiming
