#include "base_law.h"

#include <algorithm>
#include <cmath>

namespace traj_integrator::retiming {
namespace {

// The integral of the second order's s(t) from 0, continued before its begin and behind its end: at rest it stays, else s is
// mirrored in its end points, so that speeds continue.
class Integral {
 public:
  Integral(const SecondOrder& motion, bool rests_before, bool rests_after, double slower)
      : motion_(motion), before_(rests_before), after_(rests_after), slower_(slower) {
    const std::vector<double>&s = motion.s(), &t = motion.times();
    first_ = s.front();
    total_.resize(s.size());
    for (size_t i = 0; i + 1 < s.size(); ++i) total_[i + 1] = total_[i] + within(i, t[i + 1] - t[i]);
  }

  double duration() const { return motion_.times().back() * slower_; }

  double operator()(double time) const {
    const double T = motion_.times().back(), end = motion_.s().back() - first_, t = time / slower_;
    if (t < 0) return slower_ * (before_ ? 0 : inside(std::min(-t, T)));
    if (t <= T) return slower_ * inside(t);
    const double over = t - T;
    return slower_ * (total_.back() + (after_ ? end * over : 2 * end * over - (total_.back() - inside(std::max(0.0, T - over)))));
  }

 private:
  double within(size_t i, double tau) const {
    const std::vector<double>&s = motion_.s(), &x = motion_.x();
    const double u = (x[i + 1] - x[i]) / (2 * (s[i + 1] - s[i]));
    return tau * ((s[i] - first_) + tau * (std::sqrt(x[i]) / 2 + tau * u / 6));
  }
  double inside(double t) const {
    const std::vector<double>& times = motion_.times();
    const size_t i = static_cast<size_t>(std::upper_bound(times.begin() + 1, times.end() - 1, t) - times.begin()) - 1;
    return total_[i] + within(i, t - times[i]);
  }

  const SecondOrder& motion_;
  const bool before_, after_;
  const double slower_;
  double first_ = 0;
  std::vector<double> total_;
};

double median(std::vector<double>& values) {
  const auto middle = values.begin() + static_cast<std::ptrdiff_t>(values.size() / 2);
  std::nth_element(values.begin(), middle, values.end());
  return *middle;
}

}  // namespace

void BaseLaw::evaluate(int64_t interval, double e, double* s) const {
  const double* const k = c.data() + interval;
  const double f = 1 - e, d0 = k[1] - k[0], d1 = k[2] - k[1], d2 = k[3] - k[2];
  // From the nearest coefficient: small differences keep their digits.
  s[0] = k[1] + (e * e * e * d2 + (1 + 3 * e + 3 * e * e - 2 * e * e * e) * d1 - f * f * f * d0) / 6;
  s[1] = (f * f / 2 * d0 + (0.5 + e - e * e) * d1 + e * e / 2 * d2) / h;
  s[2] = (f * (d1 - d0) + e * (d2 - d1)) / (h * h);
  s[3] = (d2 - 2 * d1 + d0) / (h * h * h);
}

double BaseLaw::part_at(int64_t interval, double s) const {
  double from = 0, to = 1, value[4];
  for (int step = 0; step < 60; ++step) {
    const double e = 0.5 * (from + to);
    evaluate(interval, e, value);
    (value[0] < s ? from : to) = e;
    if (to - from < 1e-15) break;
  }
  return 0.5 * (from + to);
}

void BaseLaw::identity(double begin, double end, int64_t intervals) {
  c.resize(static_cast<size_t>(intervals) + 3);
  h = (end - begin) / static_cast<double>(intervals);
  for (int64_t i = 0; i < intervals + 3; ++i) {
    c[static_cast<size_t>(i)] = begin + (end - begin) * (static_cast<double>(i - 1) / static_cast<double>(intervals));
  }
}

void BaseLaw::smooth(const SecondOrder& motion, const Limits& limits, const Ends& ends, int64_t dof, int64_t intervals,
                     double width) {
  std::vector<double> builds_up;
  for (int64_t j = 0; j < dof; ++j) {
    const double time = std::min(limits.of[kHighest][j], -limits.of[kLowest][j]) / limits.of[kJerk][j];
    if (std::isfinite(time) && time > 0) builds_up.push_back(time);
  }
  const bool rests_before = ends.rests_before(), rests_after = ends.rests_after();
  double slower = 1;
  const double shortest = motion.times().back();
  double W = width * (builds_up.empty() ? shortest / 8 : median(builds_up));
  if (!rests_before || !rests_after) {
    W = std::min(W, 0.8 * shortest);
  } else if (W > shortest) {
    slower = std::cbrt(W / shortest);  // k: x is divided by k^2, W by k^2
    W /= slower * slower;
  }
  const Integral integral(motion, rests_before, rests_after, slower);
  const int64_t before = rests_before ? 2 : 1, after = rests_after ? 2 : 1;
  const double from = rests_before ? -W / 2 : 0, to = integral.duration() + (rests_after ? W / 2 : 0);
  h = (to - from) / static_cast<double>(intervals + 2 - before - after);
  c.resize(static_cast<size_t>(intervals) + 3);
  const double begin = motion.s().front(), end = motion.s().back();
  for (int64_t i = 0; i < intervals + 3; ++i) {
    const double t = from + static_cast<double>(i - before) * h;
    c[static_cast<size_t>(i)] = begin + (integral(t + W / 2) - integral(t - W / 2)) / W;
  }
  const size_t last = c.size();
  if (rests_before) c[0] = c[1] = c[2] = begin;
  if (rests_after) c[last - 1] = c[last - 2] = c[last - 3] = end;
}

}  // namespace traj_integrator::retiming
