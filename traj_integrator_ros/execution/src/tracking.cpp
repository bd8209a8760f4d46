// Without an active bound, one Riccati sweep is the solution. Otherwise a primal-dual interior point (Mehrotra's
// predictor and corrector; Nocedal and Wright, Numerical Optimization, 16.6) with exact l1 penalties finds it, whose
// Newton steps are Riccati sweeps, too (Rao, Wright and Rawlings 1998). All is dimensionless: times in units of the
// time scale, differences in units of the joint's own.
//
// A constraint is side * value <= bound, or, with its excess t and slack s: side * value - bound = t - s. Multipliers
// are z of the constraint and y = penalty - z of t >= 0; on the way s z = t y = mu, which goes to 0.
#include <algorithm>
#include <cmath>
#include <vector>

#include "motions.h"

namespace traj_integrator::execution {
namespace {

using Numbers = std::vector<double>;

constexpr long kKinds = 4;  // position, velocity, acceleration, jerk
constexpr long kPowers = 7;
constexpr long kMostIterations = 60;
// Of an excess: larger than multipliers are, and so large against each other that a bound of the acceleration or the
// jerk, which a joint can always keep, is not given up for the sum of others over the horizon.
constexpr double kPenalties[kKinds] = {1e7, 1e7, 1e9, 1e11};
constexpr double kActive = 1e-9;         // excess up to which bounds are kept without an interior point
constexpr double kNearBoundary = 0.995;  // share of the longest step
constexpr double kInside = 0.1;          // distance of the first iterate from its constraints
constexpr double kProduct = 1e5;         // of its slacks and multipliers; with 1 it takes half as many iterations more
constexpr double kComplementarity = 1e-10, kInfeasibility = 1e-9;  // relative, of a solution

// A bound of one value, and what the interior point knows of it.
struct Constraint {
  long place;                                  // of the value
  double side;
  double slack, excess, multiplier, reserve;   // s, t, z, y
  double per_slack, per_excess, per_multiplier, per_reserve;
  double stiffness, pull;                      // of the change of z with the value, and without it
  double d_slack, d_excess, d_multiplier;
};

struct Step {
  double most = 1;                // 1 by the share of it at which the first slack, excess or multiplier is 0, or 1
  double linear = 0, square = 0;  // of the change of all products with the share

  double gap(double before, double share) const { return before + share * (linear + share * square); }
};

class Tracker {
 public:
  explicit Tracker(const TrackingProblem& given)
      : given_(given), count_(given.count), cost_(kKinds * count_), values_(cost_), bound_(2 * cost_.size()), gain_(count_),
        pivot_(count_), feed_(count_) {
    intervals_.reserve(count_);
    for (long k = 0; k < count_; ++k) intervals_.emplace_back(given.steps[k] / given.time_scale);
    for (long power = 1; power < kPowers; ++power) scale_[power] = scale_[power - 1] * given.time_scale;
  }

  long solve(double* states, double* jerks) {
    take();
    factor(cost_);
    roll_out(start_, values_);
    const long iterations = is_active() ? interior_point() : 0;
    write(states, jerks);
    return iterations;
  }

 private:
  void take() {
    start_ = {given_.start[0], given_.start[1] * scale_[1], given_.start[2] * scale_[2]};
    double size = std::max({std::abs(start_.position), std::abs(start_.velocity), std::abs(start_.acceleration)});
    for (long kind = 0; kind < kKinds; ++kind) {
      const double unit = 1 / (scale_[1] * scale_[2 * kind]);
      for (long i = kind * count_, k = 0; k < count_; ++i, ++k) {
        cost_[i] = kind == 3 ? intervals_[k].step : given_.weights[3 * k + kind] * unit;
        for (long side = 0; side < 2; ++side) {
          const double bound = (side == 0 ? -given_.low[i] : given_.high[i]) * scale_[kind];
          bound_[2 * i + side] = bound;
          if (std::isfinite(bound)) size = std::max(size, -bound);
        }
      }
    }
    size_ = size > 0 ? size : 1;
    start_ = start_ * (1 / size_);
    for (double& bound : bound_) bound /= size_;
  }

  bool is_active() const {
    for (size_t i = 0; i < values_.size(); ++i) {
      if (-values_[i] - bound_[2 * i] > kActive || values_[i] - bound_[2 * i + 1] > kActive) return true;
    }
    return false;
  }

  // The state and the jerk from the start on: the result has no drift of sums.
  void write(double* states, double* jerks) const {
    const double units[kKinds] = {size_, size_ / scale_[1], size_ / scale_[2], size_ / scale_[3]};
    std::copy_n(given_.start, 3, states);
    State x = start_;
    for (long k = 0; k < count_; ++k) {
      const double jerk = values_[3 * count_ + k];
      x = intervals_[k].after(x, jerk);
      states += 3;
      states[0] = x.position * units[0], states[1] = x.velocity * units[1], states[2] = x.acceleration * units[2];
      jerks[k] = jerk * units[3];
    }
  }

  // The Riccati recursion of a quadratic cost: a jerk is -(gain . state) - feed.
  void factor(const Numbers& cost) {
    double pp = 0, pv = 0, pa = 0, vv = 0, va = 0, aa = 0;  // of the quadratic cost to go
    for (long k = count_ - 1; k >= 0; --k) {
      const auto [cube, square, h] = intervals_[k];
      pp += cost[k], vv += cost[count_ + k], aa += cost[2 * count_ + k];
      const State by_jerk{pp * cube + pv * square + pa * h, pv * cube + vv * square + va * h,
                          pa * cube + va * square + aa * h};
      const double pivot = 1 / (cost[3 * count_ + k] + intervals_[k].of_jerk(by_jerk));
      const State c = intervals_[k].before(by_jerk), gain = c * pivot;
      const double m_pv = pp * h + pv, m_pa = pp * square + pv * h + pa, m_va = pv * square + vv * h + va;
      const double n_va = h * m_pa + m_va, n_aa = square * m_pa + h * m_va + pa * square + va * h + aa;
      vv = h * m_pv + (pv * h + vv) - c.velocity * gain.velocity;
      va = n_va - c.velocity * gain.acceleration;
      aa = n_aa - c.acceleration * gain.acceleration;
      pv = m_pv - c.position * gain.velocity;
      pa = m_pa - c.position * gain.acceleration;
      pp -= c.position * gain.position;
      gain_[k] = gain, pivot_[k] = pivot;
    }
  }

  // Feeds of a linear cost.
  void set_feed(const Numbers& gradient) {
    State p{};
    for (long k = count_ - 1; k >= 0; --k) {
      p = p + State{gradient[k], gradient[count_ + k], gradient[2 * count_ + k]};
      const double of_jerk = gradient[3 * count_ + k] + intervals_[k].of_jerk(p);
      p = intervals_[k].before(p) + gain_[k] * -of_jerk;
      feed_[k] = of_jerk * pivot_[k];
    }
  }

  void roll_out(State x, Numbers& out) const {
    for (long k = 0; k < count_; ++k) {
      const double jerk = -gain_[k].dot(x) - feed_[k];
      x = intervals_[k].after(x, jerk);
      out[k] = x.position, out[count_ + k] = x.velocity, out[2 * count_ + k] = x.acceleration, out[3 * count_ + k] = jerk;
    }
  }

  long interior_point() {
    begin();
    const double products = 2.0 * static_cast<double>(constraints_.size());
    double left = 1, gap = 0;  // of the first violation of the conditions on multipliers, which are linear; all products
    for (const Constraint& one : constraints_) gap += one.slack * one.multiplier + one.excess * one.reserve;
    for (long iteration = 1; iteration <= kMostIterations; ++iteration) {
      linearize();
      const Step first = newton_step(0, 0);  // towards complementarity of 0
      const double ratio = first.gap(gap, 1 / first.most) / gap;
      if (!std::isfinite(ratio)) return iteration;
      // Towards that, with the second order of the first step.
      const Step step = newton_step(std::pow(std::max(ratio, 0.0), 3) * gap / products, 1);
      const double share = std::min(1.0, kNearBoundary / step.most);
      if (!std::isfinite(step.gap(gap, share))) return iteration;
      double cost = gap = 0;
      for (size_t i = 0; i < values_.size(); ++i) {
        values_[i] += share * change_[i];
        cost += cost_[i] * values_[i] * values_[i] / 2;
      }
      for (Constraint& one : constraints_) {
        one.slack += share * one.d_slack, one.excess += share * one.d_excess;
        one.multiplier += share * one.d_multiplier, one.reserve -= share * one.d_multiplier;
        gap += one.slack * one.multiplier + one.excess * one.reserve;
        cost += (one.multiplier + one.reserve) * one.excess;
      }
      left *= 1 - share;
      if (gap <= kComplementarity * cost && left <= kInfeasibility) return iteration;
    }
    return kMostIterations;
  }

  // All products are nearly the same.
  void begin() {
    change_.resize(cost_.size());
    for (size_t i = 0; i < bound_.size(); ++i) {
      if (!std::isfinite(bound_[i])) continue;
      Constraint& one = constraints_.emplace_back();
      one.place = static_cast<long>(i / 2), one.side = i % 2 == 0 ? -1 : 1;
      const double penalty = kPenalties[one.place / count_], beyond = one.side * values_[one.place] - bound_[i];
      one.excess = std::max(beyond, 0.0) + std::min(kInside, kProduct / penalty);
      one.slack = one.excess - beyond;
      one.multiplier = std::min(kProduct / one.slack, 0.5 * penalty);
      one.reserve = penalty - one.multiplier;
    }
  }

  // The barrier's curvature at the iterate, and gains of the Newton steps.
  void linearize() {
    curved_ = cost_;
    for (Constraint& one : constraints_) {
      one.per_slack = 1 / one.slack, one.per_excess = 1 / one.excess;
      one.per_multiplier = 1 / one.multiplier, one.per_reserve = 1 / one.reserve;
      one.stiffness = 1 / (one.slack * one.per_multiplier + one.excess * one.per_reserve);
      curved_[one.place] += one.stiffness;
    }
    factor(curved_);
  }

  // The steps of all towards products of `mu`, with a share of the second order of the last steps.
  Step newton_step(double mu, double second) {
    for (size_t i = 0; i < curved_.size(); ++i) curved_[i] = cost_[i] * values_[i];
    for (Constraint& one : constraints_) {  // first as if multipliers stayed
      one.d_slack = (mu - second * one.d_slack * one.d_multiplier) * one.per_multiplier - one.slack;
      one.d_excess = (mu + second * one.d_excess * one.d_multiplier) * one.per_reserve - one.excess;
      one.pull = one.stiffness * (one.d_slack - one.d_excess);
      curved_[one.place] += one.side * (one.multiplier + one.pull);
    }
    set_feed(curved_);
    roll_out({}, change_);
    Step step;
    for (Constraint& one : constraints_) {
      const double d_value = one.side * change_[one.place], d_multiplier = one.pull + one.stiffness * d_value;
      const double d_excess = one.d_excess + one.excess * one.per_reserve * d_multiplier, d_slack = d_excess - d_value;
      one.d_multiplier = d_multiplier, one.d_excess = d_excess, one.d_slack = d_slack;
      step.most = std::max(step.most, std::max(std::max(-d_slack * one.per_slack, -d_excess * one.per_excess),
                                               std::max(-d_multiplier * one.per_multiplier, d_multiplier * one.per_reserve)));
      step.linear += d_slack * one.multiplier + d_excess * one.reserve + (one.slack - one.excess) * d_multiplier;
      step.square += (d_slack - d_excess) * d_multiplier;
    }
    return step;
  }

  const TrackingProblem& given_;
  const long count_;
  std::vector<Interval> intervals_;
  double scale_[kPowers] = {1};  // powers of the time scale
  double size_ = 1;              // of the joint's differences
  State start_{};
  Numbers cost_, values_, change_;  // [kKinds, count]: at knots, jerks in the intervals that end there
  Numbers curved_;                  // the same: curvature or gradient of a Newton step
  Numbers bound_;                   // [kKinds, count, 2]: of values times -1, and of values
  std::vector<Constraint> constraints_;
  std::vector<State> gain_;
  Numbers pivot_, feed_;
};

}  // namespace

long track(const TrackingProblem& problem, double* states, double* jerks) { return Tracker(problem).solve(states, jerks); }

}  // namespace traj_integrator::execution
