#include "legs.h"

#include <algorithm>
#include <cmath>

namespace traj_integrator::retiming {
namespace {

// Dip of a squared speed, as a ratio, by which the second order must slow down for the base law to rest there.
constexpr double kDip = 4;
// Share of the time in which accelerations build up, within which the dip must lie: an average follows wider dips.
constexpr double kTight = 0.25;
// Smallest dip at a place where the path slows it down at all, so that jerk has its phases.
constexpr double kSlowed = 1.1;
// Least number of intervals in a leg.
constexpr int64_t kFewest = 8;
// Ratio to the second order's duration beyond which a leg counts as unsolved.
constexpr double kLongest = 1.5;
// Stretch of a leg, beyond which a rest is tried where the leg exceeds a limit.
constexpr double kMostStretch = 1.25;
// Tolerance of a wanted duration, and number of steps to it.
constexpr double kAsWanted = 1e-9;
constexpr int kMostSteps = 20;
// Share of the limits that is used if an excess cannot be stretched.
constexpr double kNearly = 1 - 2e-5;

double median(std::vector<double> values) {
  const auto middle = values.begin() + static_cast<std::ptrdiff_t>(values.size() / 2);
  std::nth_element(values.begin(), middle, values.end());
  return *middle;
}

// Points of the grid within a leg from which x rises to `dip` times its value on both sides, within `width` seconds each.
std::vector<int64_t> dips(const SecondOrder& motion, int64_t first, int64_t last, double dip, double width) {
  const std::vector<double>&x = motion.x(), &t = motion.times();
  // Time at which x has a value between two points: its root is linear in time.
  const auto when = [&](double value, int64_t below, int64_t above) {
    const double from = std::sqrt(x[below]), part = (std::sqrt(value) - from) / (std::sqrt(x[above]) - from);
    return t[below] + part * (t[above] - t[below]);
  };
  std::vector<int64_t> places;
  int64_t low = first;
  bool falls = false;  // whether x has fallen that much before `low`
  double high = x[first];
  for (int64_t i = first + 1; i <= last; ++i) {
    if (!falls) {
      high = std::max(high, x[i]);
      falls = x[i] * dip <= high && x[i] < high;
      if (falls) low = i;
    } else if (x[i] < x[low]) {
      low = i;
    } else if (x[i] >= dip * x[low] && x[i] > x[low]) {
      int64_t before = low;
      while (x[before] < dip * x[low] || x[before] == x[low]) --before;
      const double value = dip * x[low];
      if (t[low] - when(value, before + 1, before) <= width && when(value, i - 1, i) - t[low] <= width) places.push_back(low);
      falls = false;
      high = x[i];
    }
  }
  return places;
}

}  // namespace

Status Legs::solve(const Path& path, const SecondOrder& fastest, const Limits& limits, const Ends& ends, int64_t intervals,
                   bool slow_only) {
  used_ = 0;
  as_meant_ = true;
  if (slow_only) {
    Leg& leg = next_leg();
    leg.tolerance = 1e-6;
    leg.base.identity(path, intervals);
    return count(leg, leg.solve(path, limits, ends, true, kNearly));
  }
  std::vector<double> builds_up;
  phase_ = 0;
  for (int64_t j = 0; j < path.dof(); ++j) {
    const double highest = limits.of[kHighest][j], lowest = -limits.of[kLowest][j], jerk = limits.of[kJerk][j];
    const double time = std::min(highest, lowest) / jerk;
    if (std::isfinite(time) && time > 0) builds_up.push_back(time);
    phase_ = std::max(phase_, std::min(std::max(highest, lowest) / jerk, std::sqrt(limits.of[kVelocity][j] / jerk)));
  }
  slowest_pace_.assign(path.pieces(), 0.0);
  std::vector<double> third(path.dof());
  for (int64_t m = 0; m < path.pieces(); ++m) {
    path.evaluate(m, (path.knots()[m] + path.knots()[m + 1]) / 2, nullptr, nullptr, nullptr, third.data());
    for (int64_t j = 0; j < path.dof(); ++j) {
      slowest_pace_[m] = std::max(slowest_pace_[m], std::cbrt(std::abs(third[j]) * limits.inverse[kJerk][j]));
    }
  }
  builds_up_ = builds_up.empty() ? fastest.times().back() / 8 : median(builds_up);
  const std::vector<int64_t> at = rest_at_tight_places(fastest, ends, std::max<int64_t>(1, intervals / kFewest));
  const std::vector<double>& t = motion_.times();
  // Each leg has some intervals, and more for its time.
  const auto lasts = [&](size_t i) { return t[at[i + 1]] - t[at[i]] + builds_up_; };
  double all = 0;
  for (size_t i = 0; i + 1 < at.size(); ++i) all += lasts(i);
  const int64_t legs = static_cast<int64_t>(at.size()) - 1, few = std::min(kFewest, intervals / legs), spare = intervals - few * legs;
  for (size_t i = 0; i + 1 < at.size(); ++i) {
    const Status status = time_leg(path, limits, ends, at[i], at[i + 1], few + static_cast<int64_t>(static_cast<double>(spare) * lasts(i) / all));
    if (status != Status::kDone) return status;
  }
  return Status::kDone;
}

// Grid points between which the legs lie.
std::vector<int64_t> Legs::rest_at_tight_places(const SecondOrder& fastest, const Ends& ends, int64_t most) {
  std::vector<int64_t> places = dips(fastest, 0, fastest.intervals(), kDip, kTight * builds_up_);
  if (static_cast<int64_t>(places.size()) >= most) {  // the tightest ones
    const auto lower = [&](int64_t a, int64_t b) { return fastest.x()[a] < fastest.x()[b]; };
    std::nth_element(places.begin(), places.begin() + (most - 1), places.end(), lower);
    places.resize(most - 1);
    std::sort(places.begin(), places.end());
  }
  for (;;) {
    motion_ = fastest;
    const Status status = places.empty() ? Status::kDone : motion_.rest_at(places);
    if (status == Status::kDone || places.empty()) break;
    // A moving end allows no rest so near to it.
    if (ends.rests_before() || status == Status::kEndTooFast) places.pop_back();
    else places.erase(places.begin());
  }
  places.insert(places.begin(), 0);
  places.push_back(fastest.intervals());
  return places;
}

Status Legs::time_leg(const Path& path, const Limits& limits, const Ends& ends, int64_t first, int64_t last, int64_t intervals) {
  Ends own = ends;
  if (first > 0) own.start_speed = own.start_acceleration = 0, own.free_start = false;
  if (last < motion_.intervals()) own.end_speed = own.end_acceleration = 0, own.free_end = false;
  Leg& leg = next_leg();
  leg.first = first, leg.last = last;
  const double longest = this->longest(path, motion_, first, last), part = ends.rests() ? 1 : kNearly;
  Status status = Status::kNotConverged;
  for (const double width : {1.0, 0.3, 0.1, 3.0}) {
    leg.base.smooth(motion_, first, last, own, intervals, width * builds_up_);
    status = count(leg, leg.solve(path, limits, own, false, part));
    if (status == Status::kDone && leg.times().back() <= longest) return status;
  }
  if (rest_within(path, limits, ends, used_ - 1, slowest(first, last))) return Status::kDone;
  if (!own.rests()) return status;
  as_meant_ = false;
  leg.base.smooth(motion_, first, last, own, intervals, builds_up_);
  leg.keep_rate(path, limits);
  return Status::kDone;
}

// Splits a leg in two, with a rest at a grid point between them; false if that is not possible.
bool Legs::rest_within(const Path& path, const Limits& limits, const Ends& ends, size_t which, int64_t point) {
  const Leg& leg = *legs_[which];
  const int64_t first = leg.first, last = leg.last, intervals = leg.base.intervals();
  if (point <= first || point >= last || intervals < 2 * kFewest) return false;
  const SecondOrder kept = motion_;
  const size_t begin = used_;
  if (motion_.rest_at({point}) == Status::kDone) {
    const std::vector<double>& t = motion_.times();
    const double share = (t[point] - t[first]) / (t[last] - t[first]);
    const int64_t before = std::clamp(static_cast<int64_t>(share * static_cast<double>(intervals)), kFewest, intervals - kFewest);
    if (time_leg(path, limits, ends, first, point, before) == Status::kDone &&
        time_leg(path, limits, ends, point, last, intervals - before) == Status::kDone) {
      as_meant_ = false;
      const auto place = legs_.begin() + static_cast<std::ptrdiff_t>(which);
      const auto behind = std::rotate(place, legs_.begin() + static_cast<std::ptrdiff_t>(begin), legs_.begin() + static_cast<std::ptrdiff_t>(used_));
      std::rotate(behind, behind + 1, legs_.begin() + static_cast<std::ptrdiff_t>(used_--));
      return true;
    }
  }
  used_ = begin;
  motion_ = kept;
  return false;
}

bool Legs::rest_where_beyond(const Path& path, const Limits& limits, const Ends& ends, const std::vector<double>& ratios) {
  // for each leg that would need too much stretching: its first phase, the phase
  std::vector<std::pair<double, double>> places;
  in_each(ratios, [&](const Leg& leg, const std::vector<double>& of_leg, const double* most) {
    if (stretch_for(most) <= kMostStretch) return false;
    int64_t worst = 0;
    for (int64_t k = 1; k < leg.base.intervals(); ++k) {
      if (stretch_for(&of_leg[3 * k]) > stretch_for(&of_leg[3 * worst])) worst = k;
    }
    double s[4];
    leg.base.evaluate(worst, 0.5, s);
    for (const KnotPlace& knot : leg.knots()) {  // where its third derivative jumps, if it does
      if (knot.interval == worst) s[0] = path.knots()[knot.piece];
    }
    places.emplace_back(leg.base.begin, s[0]);
    return true;
  });
  bool any = false;
  for (const auto& [begin, s] : places) {
    size_t which = 0;
    while (legs_[which]->base.begin < begin) ++which;
    const std::vector<double>& grid = motion_.s();
    const int64_t point = std::lower_bound(grid.begin(), grid.end(), s) - grid.begin();
    any |= rest_within(path, limits, ends, which, std::clamp(point, legs_[which]->first + 1, legs_[which]->last - 1));
  }
  return any;
}

// The point of the grid within a leg at which the joints are slowest, relative to those around it; 0: there is none.
int64_t Legs::slowest(int64_t first, int64_t last) const {
  const std::vector<double>& x = motion_.x();
  const auto speed = [&](int64_t i) {
    double square = 0;
    for (int64_t j = 0; j < motion_.dof(); ++j) square += motion_.derivative(i, 1)[j] * motion_.derivative(i, 1)[j];
    return square * x[i];
  };
  int64_t found = 0;
  double least = INFINITY, before = speed(first), here = speed(first + 1);
  for (int64_t i = first + 1; i < last; ++i) {
    const double behind = speed(i + 1);
    if (here < before && here <= behind && here < least) least = here, found = i;
    before = here, here = behind;
  }
  return found;
}

Status Legs::count(ThirdOrder& leg, Status status) {
  iterations += leg.iterations;
  leg.iterations = 0;
  return status;
}

Legs::Leg& Legs::next_leg() {
  if (used_ == legs_.size()) legs_.push_back(std::make_unique<Leg>());
  Leg& leg = *legs_[used_++];
  leg.tolerance = 1e-5;
  return leg;
}

bool Legs::tighten_leg(ThirdOrder& leg, const std::vector<double>& ratios) {
  ++rounds;
  const bool tightened = leg.tighten(ratios);
  count(leg, Status::kDone);
  return tightened;
}

void Legs::stretch_beyond(const std::vector<double>& ratios) {
  in_each(ratios, [](ThirdOrder& leg, const std::vector<double>&, const double* most) {
    const double factor = stretch_for(most);
    if (factor > 1) leg.stretch(factor * (1 + 1e-9));
    return factor > 1;
  });
}

void Legs::stretch(double factor) {
  for (size_t i = 0; i < used_; ++i) legs_[i]->stretch(factor);
}

double Legs::duration() const {
  double all = 0;
  for (size_t i = 0; i < used_; ++i) all += legs_[i]->times().back();
  return all;
}

void Legs::slow_to(double wanted) {
  double by = 2;  // slowing per added duration, found by steps
  for (int step = 0; step < kMostSteps && std::abs(wanted / duration() - 1) > kAsWanted; ++step) {
    const double was = duration(), more = wanted - was;
    for (size_t i = 0; i < used_; ++i) legs_[i]->slow(by * more / was);
    by *= std::clamp(more / (duration() - was), 0.5, 8.0);
  }
}

double Legs::longest(const Path& path, const SecondOrder& motion, int64_t first, int64_t last) const {
  const size_t slowed = dips(motion, first, last, kSlowed, INFINITY).size();
  const std::vector<double>&s = motion.s(), &turns = path.turns();  // the second order passes turns at speed
  const auto turned = std::lower_bound(turns.begin(), turns.end(), s[last]) - std::upper_bound(turns.begin(), turns.end(), s[first]);
  double bent = 0;  // at the pace that jerk allows at bends, if that is slower
  for (int64_t i = first; i < last; ++i) {
    bent += std::max(motion.times()[i + 1] - motion.times()[i], (s[i + 1] - s[i]) * slowest_pace_[motion.piece(i)]);
  }
  return kLongest * bent + 2 * phase_ * static_cast<double>(1 + slowed + std::max<std::ptrdiff_t>(turned, 0));
}

void Legs::gradient(Gradient out) const {
  for (size_t i = 0; i < used_; ++i) {
    legs_[i]->gradient(out);
    const int64_t points = legs_[i]->gradient_points();
    out.adjoint += 3 * legs_[i]->dof() * points;
    out.phase += 4 * points;
    out.piece += points;
  }
}

int64_t Legs::gradient_points() const {
  int64_t all = 0;
  for (size_t i = 0; i < used_; ++i) all += legs_[i]->gradient_points();
  return all;
}

}  // namespace traj_integrator::retiming
