// A smooth law s(tau) to begin with, and points along it at which the rows of the third order are formed, with their memory.
#pragma once

#include <cstdint>
#include <vector>

#include "limits.h"
#include "path.h"
#include "rows.h"
#include "second_order.h"

namespace traj_integrator::retiming {

// A uniform cubic B-spline of `intervals` steps h. The third order's motion is s(tau(t)), with y = (d tau / dt)^2 to be found.
struct BaseLaw {
  double h = 0, begin = 0, end = 0;
  int64_t first_piece = 0, last_piece = 0;  // of the path, between begin and end
  std::vector<double> c;                    // [intervals + 3], relative to the begin: short legs keep their digits

  int64_t intervals() const { return static_cast<int64_t>(c.size()) - 3; }
  // s and its derivatives by tau, at the part e of an interval.
  void evaluate(int64_t interval, double e, double* s) const;  // s[4]
  // The part e of an interval at which s is reached.
  double part_at(int64_t interval, double s) const;

  // The second order's motion between two points of its grid, averaged over a window of `width` seconds or less.
  void smooth(const SecondOrder& motion, int64_t first, int64_t last, const Ends& ends, int64_t intervals, double width);
  // The plan's own time: s = tau.
  void identity(const Path& path, int64_t intervals);
};

// Places of the path's knots.
struct KnotPlace {
  int64_t interval;
  double part;
  int64_t piece;  // behind the knot
  bool jumps;     // the third derivative
};

std::vector<KnotPlace> places_of_knots(const Path& path, const BaseLaw& base);

struct Points : Rows {
  int64_t count = 0, padded = 0;  // padded to whole blocks
  std::vector<double> part;       // e within the interval
  std::vector<int64_t> piece;
  double* velocity_bound;         // [n]: y <= 1 / bound by the limits of velocity

  // At e = 0, 1 / parts and so on in all intervals, and at the last end. `for_jerk`, which may jump: at both ends of every
  // interval, and on both sides of every knot within one. `overlapping`: without rows, and with regular blocks for the last
  // intervals, too, if there are enough.
  void form(const Path& path, const BaseLaw& base, const Limits& limits, const std::vector<KnotPlace>& knots, int64_t parts,
            bool for_jerk, bool overlapping = false);
  // Sets slacks of at least `floor` without multipliers, or multipliers for a barrier.
  void fill(double floor, double barrier);
  // Forms all rows. Rows that were left out, and have no multipliers, get slacks of `floor`.
  void form_all(double floor);
  // Leaves out rows whose slack is large everywhere in their block; others without multipliers get those for a barrier.
  void leave_out(double barrier);
  int64_t formed() const { return firsts_.back(); }  // number of joints in blocks
  // Place of a joint's derivatives at a point.
  int64_t at(int64_t point, int64_t joint) const { return (point / kLanes * dof + joint) * kLanes + point % kLanes; }
  // Multipliers of a joint's rows at a point, upper and lower, and of the bound.
  double& multiplier(int64_t point, int64_t joint, bool lower) const {
    return pairs[8 * at(point - point % kLanes, joint) + (lower ? 5 : 1) * kLanes + point % kLanes];
  }
  double& bound_multiplier(int64_t point) const { return bound_pairs[4 * (point - point % kLanes) + kLanes + point % kLanes]; }

 private:
  void add(int64_t interval, double e, int64_t piece);
  void add_everywhere(const BaseLaw& base, int64_t parts, bool with_end, bool overlapping, const std::vector<KnotPlace>& knots);
  void take_memory(bool with_rows);
  void evaluate(const Path& path, const BaseLaw& base, const Limits& limits);
  void mean_within_interval(const Path& path, const BaseLaw& base, int64_t point, double s, double* third);

  std::vector<int32_t> intervals_, firsts_, joints_;
  std::vector<double> memory_;
};

}  // namespace traj_integrator::retiming
