// The sum of a plan and of a difference from it that decays: cubics of constant jerk in the intervals of a grid, which
// `track` finds within what the plan leaves of the bounds. These hold between knots, too: they are tightened at knots
// where the sum exceeds them in between.
#include <algorithm>
#include <cmath>
#include <utility>
#include <vector>

#include "motions.h"

namespace traj_integrator::execution {
namespace {

using Row = std::vector<double>;

constexpr double kInterval = 0.02;  // s, the longest one: halving it changes rms accelerations by less than 0.1 %
constexpr double kIntervals = 200;  // about the most; in a long blend, they are longer instead
constexpr double kSpacing = 0.25;   // share of the longest interval: closer knots of the plan begin none
constexpr double kFirst = 2e-4;     // s, where the first one begins one: a command cannot yet turn for what comes after
constexpr double kSame = 1e-9;      // s, of times that are the same but for rounding
constexpr double kSliver = 1e-6;    // s, the shortest piece
constexpr double kWeights[] = {1, 3, 3};   // three critically damped poles
constexpr double kFloating[] = {0, 1, 2};  // two, of the velocity
constexpr double kAtEnd = 1e6;      // weight at the end of the horizon, relative to that over the time scale
constexpr double kLeft = 1e-3;      // share of the largest difference, or of 1 mrad, that may be left; a quintic removes it
constexpr long kRounds = 8;         // the most solutions
constexpr double kBeyond[] = {5e-8, 2e-4, 2e-4, 2e-4};  // accepted excess: rad, then shares of velocity, acceleration, jerk
constexpr double kCounts = 0.2;     // share of it from which on a bound is tightened, too, where another excess is more
constexpr double kTighter = 2;      // times the excess, since knots beside give way
constexpr double kTurns = 1e-3;     // rad or m, beyond which a plan that goes back counts as one that turns
constexpr double kTurnsShare = 0.01;  // the same as a share of what the plan covers: less is its ringing
constexpr double kRest = 1e-6;      // rad or m, beyond the rest of a plan, or back in a time scale: rounding
constexpr double kBack = 2e-5;      // rad or m, of going back that counts as none
constexpr double kOff = 1e-7;       // rad or m, from a limit beyond which a plan leads: the next blend has knots elsewhere

constexpr double kDiffers[] = {1e-10, 1e-8, 1e-6};  // rad, rad/s, rad/s^2: less is rounding
constexpr double kHorizon = 18;     // duration of a blend without bounds, in time scales: three poles leave 3e-6
constexpr double kLongest = 40;     // s, of a blend
constexpr double kMoment = 1e-3;    // s, between the end of a blend and that of its plan
constexpr double kOfVelocity = 0.5 / 1.0001;  // share of the bound of velocity, which is that much wider, that closes a gap

// What is asked of a joint.
struct Asked {
  bool is_away = false;    // it is not on its plan
  bool floats = false;     // it follows velocities: its position is where these lead
  bool is_inside = false;  // its plan keeps the bounds
};

// Knots of the difference: the plan's, without close ones, and more in long intervals; and those of the sum.
struct Grid {
  Row times, steps;         // of the difference, [count + 1] and [count]
  Row knots;                // of the sum: also all of the plan, until its end
  std::vector<long> first;  // piece of the sum with which an interval begins; the last one: the rest of the plan

  Grid(const FollowProblem& given, double until) : times{0} {
    const Knots& plan = given.plan.knots;
    const double longest = std::max(kInterval, until / kIntervals), gap = kSpacing * longest;
    double last = 0;
    for (long i = 1; i <= plan.count && until - plan.times[i] >= gap; ++i) {
      const bool is_spaced = plan.times[i] - last >= gap;
      if (is_spaced || (i == 1 && plan.times[i] > kFirst)) add(plan.times[i], longest);
      if (is_spaced) last = plan.times[i];
    }
    add(until, longest);
    long next = 1;
    for (size_t k = 0; k + 1 < times.size(); ++k) {
      steps.push_back(times[k + 1] - times[k]);
      first.push_back(static_cast<long>(knots.size()));
      knots.push_back(times[k]);
      for (; next <= plan.count && plan.times[next] < times[k + 1] - kSame; ++next) {
        if (plan.times[next] > times[k] + kSame) knots.push_back(plan.times[next]);
      }
    }
    first.push_back(static_cast<long>(knots.size()));
    knots.push_back(until);
    for (; next <= plan.count; ++next) {
      if (plan.times[next] > until + kSliver) knots.push_back(plan.times[next]);
    }
  }

 private:
  // Adds a knot, and others before it at whole nanoseconds.
  void add(double knot, double longest) {
    const double from = times.back(), parts = std::ceil((knot - from) / longest - 1e-6);
    for (double part = 1; part < parts; ++part) times.push_back(std::nearbyint((from + part * (knot - from) / parts) * 1e9) * 1e-9);
    times.push_back(knot);
  }
};

// Of one joint.
class Blend {
 public:
  Blend(const FollowProblem& given, const Grid& grid, const Asked& asked, long joint)
      : given_(given), grid_(grid), joint_(joint), count_(static_cast<long>(grid.first.size()) - 1),
        pieces_(static_cast<long>(grid.knots.size()) - 1), tau_(given.time_scale), floats_(asked.floats), is_inside_(asked.is_inside),
        plan_(pieces_ * kSize), low_(kOrders * count_), high_(low_), place_(count_), speed_(count_), least_(count_),
        most_(count_), weights_(3 * count_) {
    for (long k = 0, piece = 0; k < pieces_; ++k) cut(given.plan, joint, grid.knots[k], grid.knots[k + 1], piece, &plan_[k * kSize]);
    const double* const from = given.start + joint;
    start_ = {from[0], from[given.plan.dof], from[2 * given.plan.dof]};
    difference_ = start_ + State{plan_[0], plan_[1], 2 * plan_[2]} * -1;
  }

  // False if the horizon is too short.
  bool solve() {
    set_bounds();
    const double end = place_[count_ - 1];
    const bool rests_outside = given_.rests && grid_.times.back() > given_.plan.knots.times[given_.plan.knots.count] &&
                               !(end >= bound(-1, 0) && end <= bound(1, 0));
    moved_ = floats_ || rests_outside;
    set_weights();
    for (const bool forward : {true, false}) {
      Row low = low_, high = high_;
      for (long k = 0; k < count_ && !is_inside_; ++k) low[k] += kOff, high[k] -= kOff;
      if (forward) go_forward(low, high);
      long rounds = 0;
      do {
        way_ = tracked(low, high);
        add_difference();
      } while (++rounds < kRounds && tighten(low, high));
      if (is_on_plan() && !(forward && passes_limit())) return true;
    }
    return false;
  }

  // The plan alone, if nothing was solved.
  void write(double* coefficients, double* apart) {
    const long dof = given_.plan.dof;
    apart[joint_] = 0;
    if (way_.jerks.empty()) {
      sum_ = plan_;
    } else {
      const double shift_by = moved_ ? way_.at(count_, 0) : 0;
      double left[kSize];  // It goes over all of the time.
      grow(grid_.times.back(), {shift_by - way_.at(count_, 0), -way_.at(count_, 1), -way_.at(count_, 2)}, left);
      for (long piece = 0; piece < grid_.first[count_]; ++piece) add(left, 0, piece);
      for (long piece = grid_.first[count_]; piece < pieces_; ++piece) sum_[piece * kSize] += shift_by;
      sum_[0] = start_.position, sum_[1] = start_.velocity, sum_[2] = start_.acceleration / 2;  // without rounding
      if (!is_inside_) {
        const Way other = free();
        for (long k = 0; k <= count_; ++k) apart[joint_] = std::max(apart[joint_], std::abs(way_.at(k, 0) - other.at(k, 0)));
      }
    }
    for (size_t i = 0; i < sum_.size(); ++i) coefficients[i * dof + joint_] = sum_[i];
  }

 private:
  struct Way {
    Row states, jerks;  // [count + 1, 3], [count]
    double at(long knot, long order) const { return states[3 * knot + order]; }
  };

  // The joint's bound below (-1) or above (1).
  double bound(double side, long order) const { return given_.bounds[((side > 0 ? kOrders : 0) + order) * given_.plan.dof + joint_]; }
  double accepted(long order) const { return kBeyond[order] * (order > 0 ? bound(1, order) : 1); }

  void set_weights() {
    const double square = tau_ * tau_, units[] = {1, square, square * square};
    for (long k = 0; k < count_; ++k) {
      const double own = grid_.steps[k], next = k + 1 < count_ ? grid_.steps[k + 1] : 0;
      for (long order = 0; order < 3; ++order) {
        double& weight = weights_[3 * k + order];
        weight = grid_.times[k + 1] < given_.from - kSame ? 0 : (own + next) / 2 * (floats_ ? kFloating : kWeights)[order];
        if (k + 1 == count_ && !(moved_ && order == 0)) weight += kAtEnd * tau_;
        weight *= units[order];
      }
    }
  }

  // What the plan leaves for the difference.
  void set_bounds() {
    Row falling(count_), rising(count_);  // accelerations of the plan on both sides of a knot
    for (long k = 0; k < count_; ++k) {
      double end[kOrders], slowest = HUGE_VAL, fastest = -HUGE_VAL;
      least_[k] = bound(-1, 2), most_[k] = bound(1, 2);
      for (long piece = grid_.first[k]; piece < grid_.first[k + 1]; ++piece) {
        const double *const begin = &plan_[piece * kSize], acceleration = 2 * begin[2], jerk = 6 * begin[3];
        evaluate({plan_.data(), {}, 1}, piece, grid_.knots[piece + 1] - grid_.knots[piece], kOrders, end, 1);
        slowest = std::min({slowest, jerk, end[3]}), fastest = std::max({fastest, jerk, end[3]});
        if (!given_.decelerates) continue;
        least_[k] = std::min({least_[k], acceleration, end[2]}), most_[k] = std::max({most_[k], acceleration, end[2]});
      }
      const double after = k + 1 < count_ ? 2 * plan_[grid_.first[k + 1] * kSize + 2] : end[2];
      falling[k] = std::min(end[2], after), rising[k] = std::max(end[2], after);
      place_[k] = end[0], speed_[k] = end[1];
      low_[k] = bound(-1, 0) - end[0], high_[k] = bound(1, 0) - end[0];
      low_[count_ + k] = bound(-1, 1) - end[1], high_[count_ + k] = bound(1, 1) - end[1];
      low_[3 * count_ + k] = bound(-1, 3) - slowest, high_[3 * count_ + k] = bound(1, 3) - fastest;
    }
    for (long k = 0; k < count_; ++k) {
      const long beside = std::min(k + 1, count_ - 1);
      low_[2 * count_ + k] = std::max(least_[k], least_[beside]) - falling[k];
      high_[2 * count_ + k] = std::min(most_[k], most_[beside]) - rising[k];
    }
    for (size_t i = 0; i < low_.size(); ++i) {  // the plan leaves no room: as near as possible
      if (low_[i] > high_[i]) low_[i] = high_[i] = (low_[i] + high_[i]) / 2;
    }
  }

  Way tracked(const Row& low, const Row& high) const {
    Way way{Row(3 * (count_ + 1)), Row(count_)};
    const double from[] = {difference_.position, difference_.velocity, difference_.acceleration};
    track({grid_.steps.data(), count_, weights_.data(), tau_, from, low.data(), high.data()}, way.states.data(), way.jerks.data());
    return way;
  }

  Way free() const { return tracked(Row(low_.size(), -HUGE_VAL), Row(high_.size(), HUGE_VAL)); }

  // Lets no joint go back to meet a plan that goes forward from there, nor pass the place where its plan rests.
  void go_forward(Row& low, Row& high) const {
    double knots[kStopPieces + 1], pieces[kStopPieces * kSize], range[2 * kOrders];
    const long lasts = stop(start_, given_.stopping[joint_], bound(1, 3), knots, pieces);
    if (lasts == 0) return;
    std::fill_n(range, kOrders, HUGE_VAL), std::fill_n(range + kOrders, kOrders, -HUGE_VAL);
    widen({pieces, {knots, lasts}, 1}, range);
    const double onward = going(floats_ ? start_.velocity : place_[count_ - 1] - start_.position);
    if (onward == 0) return;
    // Seen so that the joint goes up: the earliest place where it can stop; if the plan rests before, it has to come back.
    const double passed = onward > 0 ? range[kOrders] : -range[0], back = onward > 0 ? range[0] : -range[kOrders];
    const double position = onward * start_.position;
    double farthest = -HUGE_VAL;
    for (long k = ahead(); k < count_; ++k) farthest = std::max(farthest, onward * place_[k]);
    if (!floats_ && farthest < position - kBack) return;
    long from = 0;  // if it turns back, whatever it does: after that
    if (position - back > kBack) {
      const Way other = free();
      const auto turns = [&](long k) { return (other.at(k + 1, 1) + speed_[k]) * onward < 0; };
      while (from < count_ && !turns(from)) ++from;
      if (from == count_) from = 0;
      while (from < count_ && turns(from)) ++from;
    }
    Row &floor = onward > 0 ? low : high, &ceiling = onward > 0 ? high : low;
    for (long k = 0; k < count_; ++k) {
      const double slowest = -std::max(onward * speed_[k], 0.0) - kRest / tau_;  // what is left of a difference at rest
      double &velocity = floor[count_ + k], &highest = ceiling[k];
      if (k >= from && (floats_ || passed <= farthest + kBack)) velocity = onward * std::max(onward * velocity, slowest);
      if (!floats_ && given_.rests) highest = onward * std::min(onward * highest, std::max(farthest, passed) + kRest - onward * place_[k]);
    }
  }

  // The first knot that counts: that of the plan's first row.
  long ahead() const {
    const Knots& plan = given_.plan.knots;
    const double time = std::max(given_.from, plan.count > 1 ? plan.times[1] : 0) - kSame;
    return std::min(std::lower_bound(grid_.times.begin() + 1, grid_.times.end(), time) - grid_.times.begin() - 1, count_ - 1);
  }

  // The direction in which the plan goes, 1 or -1; `otherwise` if it stands, 0 if it turns.
  double going(double otherwise) const {
    double least = HUGE_VAL, most = -HUGE_VAL, falls = 0, rises = 0;
    for (long k = ahead(); k < count_; ++k) {
      least = std::min(least, place_[k]), most = std::max(most, place_[k]);
      falls = std::max(falls, most - place_[k]), rises = std::max(rises, place_[k] - least);
    }
    const double ringing = std::max(kTurns, kTurnsShare * (most - least));
    const bool up = falls <= ringing, down = rises <= ringing;
    if (up != down) return up ? 1 : -1;
    return up && otherwise != 0 ? std::copysign(1.0, otherwise) : 0;
  }

  // Tightens bounds at the ends of intervals in which the sum exceeds them; returns whether any does.
  bool tighten(Row& low, Row& high) const {
    Row beyond(2 * kOrders * count_);
    bool over[2 * kOrders] = {}, found = false;
    for (long k = 0; k < count_; ++k) {
      if (is_outside(k) || is_outside(k + 1)) continue;
      double bounds[2 * kOrders], allowed[2 * kOrders], range[2 * kOrders];
      for (long i = 0; i < 2 * kOrders; ++i) {
        const double side = i < kOrders ? -1 : 1;
        bounds[i] = i % kOrders == 2 ? (side > 0 ? most_ : least_)[k] : bound(side, i % kOrders);
        allowed[i] = range[i] = bounds[i] + side * kCounts * accepted(i % kOrders);
      }
      for (long piece = grid_.first[k]; piece < grid_.first[k + 1]; ++piece) {
        widen({&sum_[piece * kSize], {&grid_.knots[piece], 1}, 1}, range);
      }
      for (long i = 0; i < 2 * kOrders; ++i) {
        if (range[i] == allowed[i]) continue;
        beyond[i * count_ + k] = std::abs(range[i] - bounds[i]);
        over[i] = over[i] || beyond[i * count_ + k] > accepted(i % kOrders);
        found = found || over[i];
      }
    }
    for (long i = 0; i < 2 * kOrders; ++i) {
      for (long k = 0; k < count_ && over[i]; ++k) {
        const double beside = i % kOrders < 3 && k + 1 < count_ ? beyond[i * count_ + k + 1] : 0;  // at a knot, on both sides
        double& tightened = (i < kOrders ? low : high)[i % kOrders * count_ + k];
        tightened += (i < kOrders ? kTighter : -kTighter) * std::max(beyond[i * count_ + k], beside);
      }
    }
    return found;
  }

  // Whether the sum is beyond bounds that cannot be kept at a knot.
  bool is_outside(long knot) const {
    const double from[] = {start_.position, start_.velocity, start_.acceleration};
    for (long order = 0; order < (knot == 0 ? 3 : 2); ++order) {
      const long i = order * count_ + knot - 1;
      const double number = knot == 0 ? from[order] : way_.at(knot, order), room = knot == 0 ? 0 : accepted(order);
      const double low = knot == 0 ? bound(-1, order) : low_[i], high = knot == 0 ? bound(1, order) : high_[i];
      if (number < low - room || number > high + room) return true;
    }
    return false;
  }

  void add_difference() {
    sum_ = plan_;
    for (long k = 0; k < count_; ++k) {
      const double cubic[kSize] = {way_.at(k, 0), way_.at(k, 1), way_.at(k, 2) / 2, way_.jerks[k] / 6};
      for (long piece = grid_.first[k]; piece < grid_.first[k + 1]; ++piece) add(cubic, grid_.times[k], piece);
    }
  }

  // Adds a polynomial of the time since another time to a piece of the sum.
  void add(const double* polynomial, double since, long piece) {
    double moved[kSize];
    std::copy_n(polynomial, kSize, moved);
    shift(moved, grid_.knots[piece] - since);
    for (long power = 0; power < kSize; ++power) sum_[piece * kSize + power] += moved[power];
  }

  // Whether a joint that begins within its limits of position passes one: it may go back for that.
  bool passes_limit() const {
    double beyond = 0;
    for (long k = 0; k < count_; ++k) beyond = std::max({beyond, low_[k] - way_.at(k + 1, 0), way_.at(k + 1, 0) - high_[k]});
    const double room = accepted(0), from = start_.position;
    return beyond > room && from >= bound(-1, 0) - room && from <= bound(1, 0) + room;
  }

  bool is_on_plan() const {
    double largest = kLeft;
    for (long k = 0; k <= count_; ++k) largest = std::max(largest, std::abs(way_.at(k, 0)));
    for (long order = moved_ ? 1 : 0; order < 3; ++order) {
      if (!(std::abs(way_.at(count_, order)) * std::pow(tau_, order) <= kLeft * largest)) return false;
    }
    return true;
  }

  const FollowProblem& given_;
  const Grid& grid_;
  const long joint_, count_, pieces_;
  const double tau_;
  const bool floats_, is_inside_;
  bool moved_ = false;  // it ends elsewhere than its plan: that is about velocities, or ends beyond a limit
  State start_{}, difference_{};
  Row plan_, sum_;                     // coefficients, [pieces, kSize]
  Row low_, high_;                     // of the difference, [kOrders, count]: at ends of intervals; of the jerk in them
  Row place_, speed_, least_, most_;   // of the plan at ends of intervals; accelerations of the sum in them
  Row weights_;
  Way way_;
};

// The blend, and the rest of the plan; 0 pieces if a joint is not on its plan by `until`.
long blend(const FollowProblem& given, const std::vector<Asked>& asked, double until, double* knots, double* coefficients,
           double* apart) {
  const Grid grid(given, until);
  for (long joint = 0; joint < given.plan.dof; ++joint) {
    Blend one(given, grid, asked[joint], joint);
    if (asked[joint].is_away && !one.solve()) return 0;
    one.write(coefficients, apart);
  }
  std::copy(grid.knots.begin(), grid.knots.end(), knots);
  return static_cast<long>(grid.knots.size()) - 1;
}

// When the last piece of a plan that exceeds bounds ends, s.
double last_beyond(const FollowProblem& given) {
  const Pieces& plan = given.plan;
  Row ranges(given.bounds, given.bounds + 2 * kOrders * plan.dof);
  for (long piece = plan.knots.count; piece > 0; --piece) {
    if (widen({plan.at(piece - 1), {plan.knots.times + piece - 1, 1}, plan.dof}, ranges.data())) return plan.knots.times[piece];
  }
  return plan.knots.times[plan.knots.count];
}

// The end of a horizon, s, moved where it would be within a moment of the end of the plan.
double moved_from_end(const FollowProblem& given, double until) {
  const double lasts = given.plan.knots.times[given.plan.knots.count];
  until = std::nearbyint(until * 1e9) * 1e-9;
  if (!given.rests) return until < lasts - kMoment ? until : lasts;
  return std::abs(until - lasts) < kMoment ? lasts + kMoment : until;
}

}  // namespace

long follow(const FollowProblem& given, double* knots, double* coefficients, double* apart) {
  const Pieces& plan = given.plan;
  const long dof = plan.dof;
  std::vector<Asked> asked(dof);
  bool is_on_plan = true, is_inside = true;
  double closes = 0;
  const double* const most = given.bounds + (kOrders + 1) * dof;  // velocities
  for (long d = 0; d < dof; ++d) {
    const double *const c = plan.at(0) + d, *const from = given.start + d;
    const double off[] = {from[0] - c[0], from[dof] - c[dof], from[2 * dof] - 2 * c[2 * dof]};
    Asked& one = asked[d];
    bool is_off = given.from > 0;
    for (long order = 0; order < 3; ++order) is_off = is_off || std::abs(off[order]) > kDiffers[order];
    one.is_inside = given.kinds[d] != 0, one.floats = is_off && given.kinds[dof + d] != 0;
    one.is_away = is_off || !one.is_inside;
    if (one.is_away && !one.floats) closes = std::max(closes, std::abs(off[0]) / (kOfVelocity * most[d]));
    is_on_plan = is_on_plan && !one.is_away, is_inside = is_inside && one.is_inside;
  }
  if (is_on_plan) return -1;
  double until = given.from + kHorizon * given.time_scale + closes;
  if (!is_inside) until = std::max(until, last_beyond(given) + kHorizon * given.time_scale);
  for (; until < kLongest; until *= 2) {
    until = moved_from_end(given, until);
    const long count = blend(given, asked, until, knots, coefficients, apart);
    if (count > 0 || (!given.rests && until >= plan.knots.times[plan.knots.count])) return count;
  }
  return 0;
}

}  // namespace traj_integrator::execution
