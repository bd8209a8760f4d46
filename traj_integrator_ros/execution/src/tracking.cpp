// Without an active bound, one Riccati sweep is the solution. Otherwise a primal-dual interior point (Mehrotra's
// predictor and corrector; Nocedal and Wright, Numerical Optimization, 16.6) with exact l1 penalties finds it, whose
// Newton steps are Riccati sweeps, too (Rao, Wright and Rawlings 1998). All is dimensionless: times in units of the
// time scale, differences in units of the joint's own.
//
// A constraint is side * value <= bound, or, with its excess t and slack s: side * value - bound = t - s. Multipliers
// are z of the constraint and y = penalty - z of t >= 0; on the way s z = t y = mu, which goes to 0.
#include "tracking.h"

#include <algorithm>
#include <cmath>
#include <vector>

namespace traj_integrator::execution {
namespace {

constexpr long kKinds = 4;  // position, velocity, acceleration, jerk
constexpr long kLanes = 4;  // numbers at once: arrays of knots have a multiple of it, sums the same order everywhere

struct Settings {
  long most_iterations = 60;
  // Of an excess: larger than multipliers are, and so large against each other that a bound of the acceleration or the
  // jerk, which a joint can always keep, is not given up for the sum of others over the horizon.
  double penalties[kKinds] = {1e7, 1e7, 1e9, 1e11};
  double active = 1e-9;         // excess up to which bounds are kept without an interior point
  double far = 1e9;             // a bound further away is none
  double near_boundary = 0.995;  // share of the longest step
  double inside = 0.1;           // distance of the first iterate from its constraints
  double product = 1e5;          // of its slacks and multipliers; with 1 it takes half as many iterations more
  double complementarity = 1e-10, infeasibility = 1e-9;  // relative, of a solution
};
constexpr Settings kSettings;

struct State {
  double position, velocity, acceleration;
};

// What a jerk of 1 adds to the state in one interval.
struct Interval {
  double cube, square, step;

  explicit Interval(double h) : cube(h * h * h / 6), square(h * h / 2), step(h) {}
  State after(const State& x, double jerk) const {
    return {x.position + step * x.velocity + square * x.acceleration + cube * jerk,
            x.velocity + step * x.acceleration + square * jerk, x.acceleration + step * jerk};
  }
  // The transposed map of a costate.
  State before(const State& p) const {
    return {p.position, step * p.position + p.velocity, square * p.position + step * p.velocity + p.acceleration};
  }
  double of_jerk(const State& p) const { return cube * p.position + square * p.velocity + step * p.acceleration; }
};

// A number of each kind at each knot (a jerk: of the interval that ends there), [kKinds, stride].
struct KnotValues {
  long stride;
  std::vector<double> numbers;

  explicit KnotValues(long stride) : stride(stride), numbers(kKinds * stride) {}
  double* of(long kind) { return numbers.data() + kind * stride; }
  const double* of(long kind) const { return numbers.data() + kind * stride; }
  State state(long k) const { return {of(0)[k], of(1)[k], of(2)[k]}; }
  void set(long k, const State& x, double jerk) {
    of(0)[k] = x.position, of(1)[k] = x.velocity, of(2)[k] = x.acceleration, of(3)[k] = jerk;
  }
};

// The Riccati recursion of a quadratic cost: a jerk is -(gain . state) - feed.
class Riccati {
 public:
  explicit Riccati(long count) : gain_(count), pivot_(count), feed_(count) {}

  void factor(const std::vector<Interval>& intervals, const KnotValues& cost);
  // Feeds of a linear cost.
  void feed(const std::vector<Interval>& intervals, const KnotValues& gradient);
  void no_feed() { std::fill(feed_.begin(), feed_.end(), 0.0); }
  void roll_out(const std::vector<Interval>& intervals, State x, KnotValues& out) const;

 private:
  std::vector<State> gain_;
  std::vector<double> pivot_, feed_;
};

void Riccati::factor(const std::vector<Interval>& intervals, const KnotValues& cost) {
  double pp = 0, pv = 0, pa = 0, vv = 0, va = 0, aa = 0;  // of the quadratic cost to go
  for (long k = static_cast<long>(intervals.size()) - 1; k >= 0; --k) {
    const auto [cube, square, h] = intervals[k];
    pp += cost.of(0)[k], vv += cost.of(1)[k], aa += cost.of(2)[k];
    const State by_jerk{pp * cube + pv * square + pa * h, pv * cube + vv * square + va * h, pa * cube + va * square + aa * h};
    const double pivot = 1 / (cost.of(3)[k] + intervals[k].of_jerk(by_jerk));
    const State c = intervals[k].before(by_jerk);
    const State gain{c.position * pivot, c.velocity * pivot, c.acceleration * pivot};
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

void Riccati::feed(const std::vector<Interval>& intervals, const KnotValues& gradient) {
  State p{};
  for (long k = static_cast<long>(intervals.size()) - 1; k >= 0; --k) {
    const State g = gradient.state(k);
    p = {p.position + g.position, p.velocity + g.velocity, p.acceleration + g.acceleration};
    const double of_jerk = gradient.of(3)[k] + intervals[k].of_jerk(p);
    const State before = intervals[k].before(p), gain = gain_[k];
    p = {before.position - gain.position * of_jerk, before.velocity - gain.velocity * of_jerk,
         before.acceleration - gain.acceleration * of_jerk};
    feed_[k] = of_jerk * pivot_[k];
  }
}

void Riccati::roll_out(const std::vector<Interval>& intervals, State x, KnotValues& out) const {
  for (size_t k = 0; k < intervals.size(); ++k) {
    const State& gain = gain_[k];
    const double wanted = gain.position * x.position + gain.velocity * x.velocity + gain.acceleration * x.acceleration;
    const double jerk = -wanted - feed_[k];
    x = intervals[k].after(x, jerk);
    out.set(k, x, jerk);
  }
}

template <class Term>
double sum(size_t size, Term term) {
  double parts[kLanes] = {};
  for (size_t i = 0; i < size; i += kLanes) {
    for (long lane = 0; lane < kLanes; ++lane) parts[lane] += term(i + lane);
  }
  return (parts[0] + parts[1]) + (parts[2] + parts[3]);
}

template <class Term>
double largest(size_t size, double least, Term term) {
  double parts[kLanes] = {least, least, least, least};
  for (size_t i = 0; i < size; i += kLanes) {
    for (long lane = 0; lane < kLanes; ++lane) {
      const double value = term(i + lane);
      parts[lane] = value > parts[lane] ? value : parts[lane];
    }
  }
  return std::max(std::max(parts[0], parts[1]), std::max(parts[2], parts[3]));
}

// Constraints and their iterates, [rows, stride]: a row has one side of the bounds of one kind.
struct Constraints {
  std::vector<long> kinds;              // of each row
  std::vector<double> side, bound;      // side 0: there is none
  std::vector<double> slack, excess, multiplier, reserve;      // s, t, z, y
  std::vector<double> per_multiplier, per_reserve;             // 1 / z, 1 / y
  std::vector<double> stiffness, pull;                         // of dz = pull + stiffness * dg
  std::vector<double> d_slack, d_excess, d_multiplier;

  void resize(size_t size) {
    for (auto* part : {&slack, &excess, &multiplier, &reserve, &per_multiplier, &per_reserve, &stiffness, &pull, &d_slack,
                       &d_excess, &d_multiplier}) {
      part->resize(size);
    }
  }
  size_t size() const { return side.size(); }
};

// One joint after the other, in the memory of the first.
class Tracker {
 public:
  explicit Tracker(const TrackingProblem& problem);
  void solve(long joint, const TrackingResult& result);

 private:
  void take_weights(long joint);
  void take_bounds(long joint);
  double largest_excess() const;
  void begin_inside();
  long interior_point();
  void linearize();
  void predict();
  void correct(double mu);
  void newton_step();
  double longest_step() const;
  double complementarity(double step) const;
  double cost() const;
  void advance(double step);
  void write(long joint, const TrackingResult& result) const;

  const TrackingProblem& given_;
  const long count_, stride_;
  std::vector<Interval> intervals_;
  double scale_[kKinds];  // powers of the time scale
  double size_ = 1;       // of the joint's differences
  State start_{};
  KnotValues cost_, newton_cost_, gradient_, values_, change_;
  Riccati free_, newton_;
  Constraints c_;
};

long padded(long count) { return (count + kLanes - 1) / kLanes * kLanes; }

Tracker::Tracker(const TrackingProblem& problem)
    : given_(problem), count_(problem.count), stride_(padded(problem.count)), cost_(stride_), newton_cost_(stride_),
      gradient_(stride_), values_(stride_), change_(stride_), free_(count_), newton_(count_) {
  const double tau = problem.time_scale;
  scale_[0] = 1, scale_[1] = tau, scale_[2] = tau * tau, scale_[3] = tau * tau * tau;
  for (long k = 0; k < count_; ++k) intervals_.emplace_back(problem.steps[k] / tau);
  free_.no_feed();
}

void Tracker::take_weights(long joint) {
  const double of_position = scale_[2] * scale_[3] / given_.jerk_weight;
  const double unit[3] = {of_position, of_position / scale_[1] / scale_[1], of_position / scale_[2] / scale_[2]};
  for (long k = 0; k < count_; ++k) {
    const double* const weights = given_.weights + 3 * k * given_.weighted;
    for (long kind = 0; kind < 3; ++kind) cost_.of(kind)[k] = weights[kind * given_.weighted + joint] * unit[kind];
    cost_.of(3)[k] = intervals_[k].step;
  }
  free_.factor(intervals_, cost_);
}

void Tracker::take_bounds(long joint) {
  c_.kinds.clear(), c_.side.clear(), c_.bound.clear();
  size_ = std::max({std::abs(start_.position), std::abs(start_.velocity), std::abs(start_.acceleration)});
  for (long row = 0; row < 2 * kKinds; ++row) {
    const long kind = row / 2;
    const double side = row % 2 == 0 ? -1 : 1;
    const double* const bounds = (side < 0 ? given_.low : given_.high) + kind * count_ * given_.dof + joint;
    const size_t begin = c_.side.size();
    bool any = false;
    c_.side.resize(begin + stride_, 0.0), c_.bound.resize(begin + stride_, 1.0);
    for (long k = 0; k < count_; ++k) {
      const double bound = side * bounds[k * given_.dof] * scale_[kind];
      if (!std::isfinite(bound)) continue;
      any = true;
      c_.side[begin + k] = side, c_.bound[begin + k] = bound;
      size_ = std::max(size_, -bound);
    }
    if (any) {
      c_.kinds.push_back(kind);
    } else {
      c_.side.resize(begin), c_.bound.resize(begin);
    }
  }
}

double Tracker::largest_excess() const {
  double most = 0;
  for (size_t row = 0; row < c_.kinds.size(); ++row) {
    const double *const side = c_.side.data() + row * stride_, *const bound = c_.bound.data() + row * stride_;
    const double* const value = values_.of(c_.kinds[row]);
    most = largest(stride_, most, [&](size_t k) { return side[k] * value[k] - bound[k]; });
  }
  return most;
}

void Tracker::begin_inside() {
  c_.resize(c_.size());
  for (size_t row = 0; row < c_.kinds.size(); ++row) {
    const double penalty = kSettings.penalties[c_.kinds[row]];
    for (long k = 0; k < stride_; ++k) {
      const size_t i = row * stride_ + k;
      const double beyond = c_.side[i] * values_.of(c_.kinds[row])[k] - c_.bound[i];
      c_.excess[i] = std::max(beyond, 0.0) + kSettings.inside;
      c_.slack[i] = c_.excess[i] - beyond;
      c_.multiplier[i] = std::min(0.5 * penalty, kSettings.product / c_.slack[i]);
      c_.reserve[i] = penalty - c_.multiplier[i];
    }
  }
}

// The barrier's curvature at the iterate, and gains of the Newton steps.
void Tracker::linearize() {
  const double *const s = c_.slack.data(), *const t = c_.excess.data();
  const double *const z = c_.multiplier.data(), *const y = c_.reserve.data();
  double *const per_z = c_.per_multiplier.data(), *const per_y = c_.per_reserve.data(), *const stiffness = c_.stiffness.data();
  for (size_t i = 0; i < c_.size(); ++i) {
    per_z[i] = 1 / z[i];
    per_y[i] = 1 / y[i];
    stiffness[i] = 1 / (s[i] * per_z[i] + t[i] * per_y[i]);
  }
  newton_cost_.numbers = cost_.numbers;
  for (size_t row = 0; row < c_.kinds.size(); ++row) {
    double* const cost = newton_cost_.of(c_.kinds[row]);
    const double *const side = c_.side.data() + row * stride_, *const own = stiffness + row * stride_;
    for (long k = 0; k < stride_; ++k) cost[k] += side[k] * side[k] * own[k];
  }
  newton_.factor(intervals_, newton_cost_);
}

// Towards complementarity of 0.
void Tracker::predict() {
  const double *const s = c_.slack.data(), *const t = c_.excess.data(), *const stiffness = c_.stiffness.data();
  double *const pull = c_.pull.data(), *const d_t = c_.d_excess.data();
  for (size_t i = 0; i < c_.size(); ++i) {
    pull[i] = stiffness[i] * (t[i] - s[i]);
    d_t[i] = -t[i];
  }
  newton_step();
}

// Towards complementarity of mu, with the second order of the predicted step.
void Tracker::correct(double mu) {
  const double *const s = c_.slack.data(), *const t = c_.excess.data(), *const stiffness = c_.stiffness.data();
  const double *const per_z = c_.per_multiplier.data(), *const per_y = c_.per_reserve.data();
  const double *const d_s = c_.d_slack.data(), *const d_z = c_.d_multiplier.data();
  double *const pull = c_.pull.data(), *const d_t = c_.d_excess.data();
  for (size_t i = 0; i < c_.size(); ++i) {
    const double of_slack = (mu - d_s[i] * d_z[i]) * per_z[i] - s[i], of_excess = (mu + d_t[i] * d_z[i]) * per_y[i] - t[i];
    pull[i] = stiffness[i] * (of_slack - of_excess);
    d_t[i] = of_excess;
  }
  newton_step();
}

// From `pull` and the part of d_excess that is known to the steps of all.
void Tracker::newton_step() {
  for (size_t i = 0; i < gradient_.numbers.size(); ++i) gradient_.numbers[i] = cost_.numbers[i] * values_.numbers[i];
  for (size_t row = 0; row < c_.kinds.size(); ++row) {
    double* const gradient = gradient_.of(c_.kinds[row]);
    const size_t at = row * stride_;
    const double *const side = c_.side.data() + at, *const z = c_.multiplier.data() + at, *const pull = c_.pull.data() + at;
    for (long k = 0; k < stride_; ++k) gradient[k] += side[k] * (z[k] + pull[k]);
  }
  newton_.feed(intervals_, gradient_);
  newton_.roll_out(intervals_, {}, change_);
  for (size_t row = 0; row < c_.kinds.size(); ++row) {
    const double* const change = change_.of(c_.kinds[row]);
    const size_t at = row * stride_;
    const double *const side = c_.side.data() + at, *const stiffness = c_.stiffness.data() + at, *const pull = c_.pull.data() + at;
    const double *const t = c_.excess.data() + at, *const per_y = c_.per_reserve.data() + at;
    double *const d_s = c_.d_slack.data() + at, *const d_t = c_.d_excess.data() + at, *const d_z = c_.d_multiplier.data() + at;
    for (long k = 0; k < stride_; ++k) {
      const double d_g = side[k] * change[k], dz = pull[k] + stiffness[k] * d_g, dt = d_t[k] + t[k] * per_y[k] * dz;
      d_z[k] = dz;
      d_t[k] = dt;
      d_s[k] = dt - d_g;
    }
  }
}

// The share of the step at which the first of slacks, excesses and multipliers is 0, at most 1.
double Tracker::longest_step() const {
  const double *const s = c_.slack.data(), *const t = c_.excess.data();
  const double *const per_z = c_.per_multiplier.data(), *const per_y = c_.per_reserve.data();
  const double *const d_s = c_.d_slack.data(), *const d_t = c_.d_excess.data(), *const d_z = c_.d_multiplier.data();
  return 1 / largest(c_.size(), 1.0, [&](size_t i) {
           const double of_slack = -d_s[i] / s[i], of_excess = -d_t[i] / t[i], down = -d_z[i] * per_z[i], up = d_z[i] * per_y[i];
           const double primal = of_slack > of_excess ? of_slack : of_excess, dual = up > down ? up : down;
           return primal > dual ? primal : dual;
         });
}

// The sum of all products after a share of the step.
double Tracker::complementarity(double a) const {
  const double *const s = c_.slack.data(), *const t = c_.excess.data(), *const z = c_.multiplier.data(), *const y = c_.reserve.data();
  const double *const d_s = c_.d_slack.data(), *const d_t = c_.d_excess.data(), *const d_z = c_.d_multiplier.data();
  return sum(c_.size(), [&](size_t i) {
    return (s[i] + a * d_s[i]) * (z[i] + a * d_z[i]) + (t[i] + a * d_t[i]) * (y[i] - a * d_z[i]);
  });
}

double Tracker::cost() const {
  const double *const cost = cost_.numbers.data(), *const value = values_.numbers.data(), *const t = c_.excess.data();
  const double squares = sum(cost_.numbers.size(), [&](size_t i) { return cost[i] * value[i] * value[i]; });
  double penalties = 0;
  for (size_t row = 0; row < c_.kinds.size(); ++row) {
    penalties += kSettings.penalties[c_.kinds[row]] * sum(stride_, [&](size_t k) { return t[row * stride_ + k]; });
  }
  return squares / 2 + penalties;
}

void Tracker::advance(double a) {
  for (size_t i = 0; i < values_.numbers.size(); ++i) values_.numbers[i] += a * change_.numbers[i];
  for (size_t i = 0; i < c_.size(); ++i) {
    c_.slack[i] += a * c_.d_slack[i];
    c_.excess[i] += a * c_.d_excess[i];
    c_.multiplier[i] += a * c_.d_multiplier[i];
    c_.reserve[i] -= a * c_.d_multiplier[i];
  }
}

long Tracker::interior_point() {
  begin_inside();
  const double products = 2.0 * static_cast<double>(c_.size());
  double left = 1;  // of the first violation of the conditions on multipliers, which are linear
  std::fill(c_.d_slack.begin(), c_.d_slack.end(), 0.0);
  double gap = complementarity(0);
  for (long iteration = 1; iteration <= kSettings.most_iterations; ++iteration) {
    linearize();
    predict();
    const double ratio = complementarity(longest_step()) / gap;
    if (!std::isfinite(ratio)) return iteration;
    correct(ratio * ratio * ratio * gap / products);
    const double step = std::min(1.0, kSettings.near_boundary * longest_step());
    if (!(std::isfinite(step) && std::isfinite(complementarity(step)))) return iteration;
    advance(step);
    left *= 1 - step;
    gap = complementarity(0);
    if (gap <= kSettings.complementarity * cost() && left <= kSettings.infeasibility) return iteration;
  }
  return kSettings.most_iterations;
}

void Tracker::solve(long joint, const TrackingResult& result) {
  const double* const start = given_.start + joint;
  start_ = {start[0], start[given_.dof] * scale_[1], start[2 * given_.dof] * scale_[2]};
  if (joint < given_.weighted) take_weights(joint);
  take_bounds(joint);
  if (!(size_ > 0)) size_ = 1;
  start_ = {start_.position / size_, start_.velocity / size_, start_.acceleration / size_};
  for (size_t i = 0; i < c_.size(); ++i) c_.bound[i] /= c_.side[i] != 0 ? size_ : 1.0;
  free_.roll_out(intervals_, start_, values_);
  result.iterations[joint] = 0;
  if (largest_excess() > kSettings.active) {
    result.iterations[joint] = interior_point();
    State x = start_;
    for (long k = 0; k < count_; ++k) {  // without the drift of sums
      x = intervals_[k].after(x, values_.of(3)[k]);
      values_.set(k, x, values_.of(3)[k]);
    }
  }
  write(joint, result);
}

void Tracker::write(long joint, const TrackingResult& result) const {
  const long dof = given_.dof;
  for (long kind = 0; kind < 3; ++kind) {
    double* const states = result.states + kind * dof + joint;
    const double unit = size_ / scale_[kind];
    states[0] = given_.start[kind * dof + joint];
    for (long k = 0; k < count_; ++k) states[(k + 1) * 3 * dof] = values_.of(kind)[k] * unit;
  }
  for (long k = 0; k < count_; ++k) result.jerks[k * dof + joint] = values_.of(3)[k] * (size_ / scale_[3]);
  result.violation[joint] = largest_excess() * size_;
}

}  // namespace

void track(const TrackingProblem& problem, const TrackingResult& result) {
  Tracker tracker(problem);
  for (long joint = 0; joint < problem.dof; ++joint) tracker.solve(joint, result);
}

}  // namespace traj_integrator::execution
