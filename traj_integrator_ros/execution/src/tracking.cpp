// Without an active bound, one Riccati sweep is the solution. Otherwise a primal-dual interior point (Mehrotra's
// predictor and corrector; Nocedal and Wright, Numerical Optimization, 16.6) with exact l1 penalties finds it, whose
// Newton steps are Riccati sweeps, too (Rao, Wright and Rawlings 1998). All is dimensionless: times in units of the
// time scale, differences in units of the joint's own.
//
// A constraint is side * value <= bound, or, with its excess t and slack s: side * value - bound = t - s. Multipliers
// are z of the constraint and y = penalty - z of t >= 0; on the way s z = t y = mu, which goes to 0.
#include <algorithm>
#include <cmath>
#include <valarray>
#include <vector>

#include "motions.h"

namespace traj_integrator::execution {
namespace {

using Numbers = std::valarray<double>;

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

// One joint after the other, in the memory of the first.
class Tracker {
 public:
  explicit Tracker(const TrackingProblem& given)
      : given_(given), count_(given.count), cost_(kKinds * count_), values_(cost_), change_(cost_), side_(2 * cost_.size()),
        bound_(side_), penalty_(side_), gain_(count_), pivot_(count_), feed_(count_) {
    for (long k = 0; k < count_; ++k) intervals_.emplace_back(given.steps[k] / given.time_scale);
    for (size_t i = 0; i < penalty_.size(); ++i) penalty_[i] = kPenalties[i / count_ % kKinds];
    for (long power = 1; power < kPowers; ++power) scale_[power] = scale_[power - 1] * given.time_scale;
  }

  void solve(long joint, const TrackingResult& result) {
    take(joint);
    factor(cost_);
    std::fill(feed_.begin(), feed_.end(), 0.0);
    roll_out(start_, values_);
    const bool is_active = Numbers(side_ * twice(values_) - bound_).max() > kActive;
    result.iterations[joint] = is_active ? interior_point() : 0;
    write(joint, result);
  }

 private:
  void take(long joint) {
    const long dof = given_.dof;
    const double* const start = given_.start + joint;
    start_ = {start[0], start[dof] * scale_[1], start[2 * dof] * scale_[2]};
    size_ = std::max({std::abs(start_.position), std::abs(start_.velocity), std::abs(start_.acceleration)});
    for (long kind = 0; kind < kKinds; ++kind) {
      const double unit = 1 / (scale_[1] * scale_[2 * kind]);
      for (long k = 0; k < count_; ++k) {
        const long i = kind * count_ + k;
        cost_[i] = kind == 3 ? intervals_[k].step : given_.weights[(3 * k + kind) * dof + joint] * unit;
        take_bound(i, -1, -given_.low[i * dof + joint] * scale_[kind]);
        take_bound(i + kKinds * count_, 1, given_.high[i * dof + joint] * scale_[kind]);
      }
    }
    if (!(size_ > 0)) size_ = 1;
    start_ = start_ * (1 / size_);
    for (size_t i = 0; i < bound_.size(); ++i) bound_[i] /= side_[i] != 0 ? size_ : 1;
  }

  void take_bound(long i, double side, double bound) {
    const bool is_given = std::isfinite(bound);
    side_[i] = is_given ? side : 0;
    bound_[i] = is_given ? bound : 1;
    if (is_given) size_ = std::max(size_, -bound);
  }

  // The state and the jerk from the start on: the result has no drift of sums.
  void write(long joint, const TrackingResult& result) const {
    const long dof = given_.dof;
    const double units[kKinds] = {size_, size_ / scale_[1], size_ / scale_[2], size_ / scale_[3]};
    double* states = result.states + joint;
    for (long kind = 0; kind < 3; ++kind) states[kind * dof] = given_.start[kind * dof + joint];
    State x = start_;
    for (long k = 0; k < count_; ++k) {
      const double jerk = values_[3 * count_ + k];
      x = intervals_[k].after(x, jerk);
      states += 3 * dof;
      states[0] = x.position * units[0], states[dof] = x.velocity * units[1], states[2 * dof] = x.acceleration * units[2];
      result.jerks[k * dof + joint] = jerk * units[3];
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

  // Numbers of knots for the lower and for the upper bounds, and the sum of what both have.
  static Numbers twice(const Numbers& numbers) {
    Numbers both(2 * numbers.size());
    std::copy(std::begin(numbers), std::end(numbers), std::begin(both));
    std::copy(std::begin(numbers), std::end(numbers), std::begin(both) + numbers.size());
    return both;
  }
  static Numbers sum_of_both(const Numbers& both) {
    const size_t half = both.size() / 2;
    return Numbers(&both[0], half) + Numbers(&both[half], half);
  }

  long interior_point() {
    const Numbers beyond = side_ * twice(values_) - bound_;
    excess_ = beyond.apply([](double by) { return std::max(by, 0.0) + kInside; });
    slack_ = excess_ - beyond;
    multiplier_ = kProduct / slack_;
    for (size_t i = 0; i < multiplier_.size(); ++i) multiplier_[i] = std::min(multiplier_[i], 0.5 * penalty_[i]);
    reserve_ = penalty_ - multiplier_;
    d_slack_ = d_excess_ = d_multiplier_ = Numbers(beyond.size());
    const double products = 2.0 * static_cast<double>(beyond.size());
    double left = 1;  // of the first violation of the conditions on multipliers, which are linear
    double gap = complementarity(0);
    for (long iteration = 1; iteration <= kMostIterations; ++iteration) {
      linearize();
      newton_step(-slack_, -excess_);  // towards complementarity of 0
      const double ratio = complementarity(longest_step()) / gap;
      if (!std::isfinite(ratio)) return iteration;
      const double mu = ratio * ratio * ratio * gap / products;  // towards that, with the second order of the step
      newton_step((mu - d_slack_ * d_multiplier_) * per_multiplier_ - slack_,
                  (mu + d_excess_ * d_multiplier_) * per_reserve_ - excess_);
      const double step = std::min(1.0, kNearBoundary * longest_step());
      if (!(std::isfinite(step) && std::isfinite(complementarity(step)))) return iteration;
      values_ += step * change_;
      slack_ += step * d_slack_;
      excess_ += step * d_excess_;
      multiplier_ += step * d_multiplier_;
      reserve_ -= step * d_multiplier_;
      left *= 1 - step;
      gap = complementarity(0);
      if (gap <= kComplementarity * cost() && left <= kInfeasibility) return iteration;
    }
    return kMostIterations;
  }

  // The barrier's curvature at the iterate, and gains of the Newton steps.
  void linearize() {
    per_multiplier_ = 1.0 / multiplier_;
    per_reserve_ = 1.0 / reserve_;
    stiffness_ = 1.0 / (slack_ * per_multiplier_ + excess_ * per_reserve_);
    factor(cost_ + sum_of_both(side_ * side_ * stiffness_));
  }

  // The steps of all from those that slacks and excesses would take if their multipliers stayed.
  void newton_step(const Numbers& of_slack, const Numbers& of_excess) {
    const Numbers pull = stiffness_ * (of_slack - of_excess);
    set_feed(cost_ * values_ + sum_of_both(side_ * (multiplier_ + pull)));
    roll_out({}, change_);
    const Numbers d_value = side_ * twice(change_);
    d_multiplier_ = pull + stiffness_ * d_value;
    d_excess_ = of_excess + excess_ * per_reserve_ * d_multiplier_;
    d_slack_ = d_excess_ - d_value;
  }

  // The share of the step at which the first of slacks, excesses and multipliers is 0, at most 1.
  double longest_step() const {
    const Numbers of_slack = -d_slack_ / slack_, of_excess = -d_excess_ / excess_;
    const Numbers down = -d_multiplier_ * per_multiplier_, up = d_multiplier_ * per_reserve_;
    return 1 / std::max({1.0, of_slack.max(), of_excess.max(), down.max(), up.max()});
  }

  // The sum of all products after a share of the step.
  double complementarity(double a) const {
    return Numbers((slack_ + a * d_slack_) * (multiplier_ + a * d_multiplier_) +
                   (excess_ + a * d_excess_) * (reserve_ - a * d_multiplier_)).sum();
  }

  double cost() const { return Numbers(cost_ * values_ * values_).sum() / 2 + Numbers(penalty_ * excess_).sum(); }

  const TrackingProblem& given_;
  const long count_;
  std::vector<Interval> intervals_;
  double scale_[kPowers] = {1};  // powers of the time scale
  double size_ = 1;              // of the joint's differences
  State start_{};
  Numbers cost_, values_, change_;     // [kKinds, count]: at knots, jerks in the intervals that end there
  Numbers side_, bound_, penalty_;     // [2, kKinds, count]: lower and upper ones, as all that follow; side 0: there is none
  std::vector<State> gain_;
  std::vector<double> pivot_, feed_;
  Numbers slack_, excess_, multiplier_, reserve_;  // s, t, z, y
  Numbers per_multiplier_, per_reserve_;           // 1 / z, 1 / y
  Numbers stiffness_;                              // of the change of z with the value
  Numbers d_slack_, d_excess_, d_multiplier_;
};

}  // namespace

void track(const TrackingProblem& problem, const TrackingResult& result) {
  Tracker tracker(problem);
  for (long joint = 0; joint < problem.dof; ++joint) tracker.solve(joint, result);
}

}  // namespace traj_integrator::execution
