#include "legs.h"

#include <algorithm>
#include <cmath>

namespace traj_integrator::retiming {
namespace {

// Of a speed squared: by how much the second order dips where the base law has to rest.
constexpr double kDip = 4;
// The same where the path makes it slow down at all, so that jerk has its phases.
constexpr double kSlowed = 1.1;
// Intervals of a leg, at least.
constexpr int64_t kFewest = 8;
// Of the durations of the second order, beyond which a leg is as good as not solved.
constexpr double kLongest = 1.5;
// Of limits, which is used where an excess cannot be stretched.
constexpr double kNearly = 1 - 2e-5;

double median(std::vector<double> values) {
  const auto middle = values.begin() + static_cast<std::ptrdiff_t>(values.size() / 2);
  std::nth_element(values.begin(), middle, values.end());
  return *middle;
}

// Points of the grid within a leg from which x rises to `dip` times its value on both sides, within `width` seconds each.
std::vector<int64_t> dips(const SecondOrder& motion, int64_t first, int64_t last, double dip, double width) {
  const std::vector<double>&x = motion.x(), &t = motion.times();
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
      if (t[low] - t[before] <= width && t[i] - t[low] <= width) places.push_back(low);
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
    ThirdOrder& leg = next_leg();
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
  builds_up_ = builds_up.empty() ? fastest.times().back() / 8 : median(builds_up);
  const std::vector<int64_t> at = rest_at_tight_places(fastest, ends, intervals / kFewest);
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

// The points of the grid between which the legs are.
std::vector<int64_t> Legs::rest_at_tight_places(const SecondOrder& fastest, const Ends& ends, int64_t most) {
  std::vector<int64_t> places = dips(fastest, 0, fastest.intervals(), kDip, builds_up_ / 2);
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
    // A moving end does not allow to rest so near to it.
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
  ThirdOrder& leg = next_leg();
  const std::vector<double>&t = motion_.times(), &x = motion_.x();
  const double longest = this->longest(motion_, first, last), part = ends.rests() ? 1 : kNearly;
  Status status = Status::kNotConverged;
  for (const double width : {1.0, 0.3, 0.1, 3.0}) {
    leg.base.smooth(motion_, first, last, own, intervals, width * builds_up_);
    status = count(leg, leg.solve(path, limits, own, false, part));
    if (status == Status::kDone && leg.times().back() <= longest) return status;
  }
  as_meant_ = false;
  int64_t slowest = -1;
  for (int64_t i = first + 1; i < last; ++i) {
    if (x[i] < x[i - 1] && x[i] <= x[i + 1] && (slowest < 0 || x[i] < x[slowest])) slowest = i;
  }
  if (slowest > 0 && intervals >= 2 * kFewest) {
    const SecondOrder kept = motion_;
    if (motion_.rest_at({slowest}) == Status::kDone) {
      --used_;
      const double share = (t[slowest] - t[first]) / (t[last] - t[first]);
      const int64_t before = std::clamp(static_cast<int64_t>(share * static_cast<double>(intervals)), kFewest, intervals - kFewest);
      status = time_leg(path, limits, ends, first, slowest, before);
      return status == Status::kDone ? time_leg(path, limits, ends, slowest, last, intervals - before) : status;
    }
    motion_ = kept;
  }
  if (!own.rests()) return status;
  leg.base.smooth(motion_, first, last, own, intervals, builds_up_);
  leg.keep_rate(path, limits);
  return Status::kDone;
}

Status Legs::count(ThirdOrder& leg, Status status) {
  iterations += leg.iterations;
  leg.iterations = 0;
  return status;
}

ThirdOrder& Legs::next_leg() {
  if (used_ == legs_.size()) legs_.push_back(std::make_unique<ThirdOrder>());
  ThirdOrder& leg = *legs_[used_++];
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

double Legs::longest(const SecondOrder& motion, int64_t first, int64_t last) const {
  const size_t slowed = dips(motion, first, last, kSlowed, INFINITY).size();
  return kLongest * (motion.times()[last] - motion.times()[first]) + 2 * phase_ * static_cast<double>(1 + slowed);
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
