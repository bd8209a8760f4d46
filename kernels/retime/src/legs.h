// The third order's motion along a whole path, in legs between rests.
#pragma once

#include <algorithm>
#include <cstdint>
#include <memory>
#include <vector>

#include "limits.h"
#include "path.h"
#include "second_order.h"
#include "third_order.h"

namespace traj_integrator::retiming {

// Where a path turns back or bends within less than the accelerations take to build up, the second order almost stands
// still for a moment, and an average of it does not: there the base law rests, and each leg between rests is timed by itself.
class Legs {
 public:
  // `fastest`: the solution of the second order. A motion that is only slowed keeps its own time as base law: one leg.
  Status solve(const Path& path, const SecondOrder& fastest, const Limits& limits, const Ends& ends, int64_t intervals,
               bool slow_only);
  // Ratios [3 N], velocity, acceleration, jerk of the intervals of all legs.
  // Legs whose greatest ratios are an excess of more than `enough` are solved again with limits tightened; false if none is.
  template <class Excess>
  bool tighten(const std::vector<double>& ratios, const Excess& excess_of, double enough) {
    return in_each(ratios, [&](ThirdOrder& leg, const std::vector<double>& of_leg, const double* most) {
      return excess_of(most) > enough && tighten_leg(leg, of_leg);
    });
  }
  // Rests where legs would have to be stretched a lot; false if there are none, or it is not possible.
  bool rest_where_beyond(const Path& path, const Limits& limits, const Ends& ends, const std::vector<double>& ratios);
  // Legs in which one exceeds a limit are stretched by themselves.
  void stretch_beyond(const std::vector<double>& ratios);
  void stretch(double factor);
  // Slows a motion that takes a little less to a wanted duration, with its ends as they are.
  void slow_to(double wanted);

  size_t legs() const { return used_; }
  const ThirdOrder& leg(size_t i) const { return *legs_[i]; }
  double duration() const;
  // Returns whether no leg had to be left at a constant rate, or to rest where the path is smooth.
  bool as_meant() const { return as_meant_; }
  // Returns whether the legs take longer than jerk explains, given the second order's duration: they are no solution.
  bool is_too_long(const Path& path, const SecondOrder& fastest) const {
    return !(duration() <= longest(path, fastest, 0, fastest.intervals()));
  }
  void gradient(Gradient out) const;
  int64_t gradient_points() const;
  int64_t iterations = 0, rounds = 0;

 private:
  struct Leg : ThirdOrder {
    int64_t first, last;  // points of the second order's grid
  };
  std::vector<int64_t> rest_at_tight_places(const SecondOrder& fastest, const Ends& ends, int64_t most);
  Status time_leg(const Path& path, const Limits& limits, const Ends& ends, int64_t first, int64_t last, int64_t intervals);
  // Longest duration between points of the second order's grid: a motion that lasts longer is no solution.
  double longest(const Path& path, const SecondOrder& motion, int64_t first, int64_t last) const;
  int64_t slowest(int64_t first, int64_t last) const;
  Status count(ThirdOrder& leg, Status status);
  Leg& next_leg();
  bool rest_within(const Path& path, const Limits& limits, const Ends& ends, size_t which, int64_t point);
  bool tighten_leg(ThirdOrder& leg, const std::vector<double>& ratios);
  // Calls each(leg, its ratios, the greatest of them [3]); whether one call returned true.
  template <class Each>
  bool in_each(const std::vector<double>& ratios, const Each& each) {
    bool any = false;
    auto from = ratios.begin();
    for (size_t i = 0; i < used_; ++i) {
      const std::vector<double> of_leg(from, from + 3 * legs_[i]->base.intervals());
      double most[3] = {};
      for (size_t k = 0; k < of_leg.size(); ++k) most[k % 3] = std::max(most[k % 3], of_leg[k]);
      any |= each(*legs_[i], of_leg, most);
      from += static_cast<std::ptrdiff_t>(of_leg.size());
    }
    return any;
  }

  std::vector<std::unique_ptr<Leg>> legs_;  // the first `used_` are in use; the others keep their memory
  size_t used_ = 0;
  bool as_meant_ = true;
  SecondOrder motion_;  // with the rests
  double builds_up_ = 0, phase_ = 0;
  std::vector<double> slowest_pace_;  // of each piece of the path, dt/ds, with its bend and jerk alone
};

}  // namespace traj_integrator::retiming
