#include <algorithm>
#include <cmath>
#include <vector>

#include "motions.h"

namespace traj_integrator::execution {

void place(const Pieces* motions, long joints, const Knots& knots, double* out) {
  for (long joint = 0; joint < joints; ++joint) {
    const Pieces& motion = motions[joint];
    const long last = motion.knots.count - 1;
    const double end = motion.knots.times[last + 1];
    long piece = 0;
    for (long interval = 0; interval < knots.count; ++interval) {
      const double begin = knots.times[interval], middle = (begin + knots.times[interval + 1]) / 2;
      while (piece < last && motion.knots.times[piece + 1] <= middle) ++piece;
      const bool over = middle >= end;
      double c[kLargestSize];
      std::copy_n(motion.at(piece), kLargestSize, c);
      shift(c, kLargestSize, 1, (over ? end : begin) - motion.knots.times[piece]);
      double* to = out + interval * kLargestSize * joints + joint;
      for (long power = 0; power < kLargestSize; ++power) to[power * joints] = over && power > 0 ? 0.0 : c[power];
    }
  }
}

long united_knots(double* times, long count, double gap, double beside) {
  const auto whole = [](double time) { return std::nearbyint(time * 1e9) * 1e-9; };
  std::sort(times, times + count);
  for (long i = 0; i < count; ++i) times[i] = whole(times[i]);
  const double last = std::max(times[count - 1], gap);
  std::vector<long> became_one;  // each once, increasing
  bool last_did = false;
  long kept = 1;
  for (long i = 1; i < count; ++i) {
    const double after = times[i] - times[kept - 1], before = last - times[i];
    if (after >= gap && before >= gap) {
      times[kept++] = times[i];
      continue;
    }
    if (after > 0 && after < gap && before > 0 && (became_one.empty() || became_one.back() != kept - 1)) {
      became_one.push_back(kept - 1);
    }
    last_did |= before > 0 && before < gap;
  }
  times[kept++] = last;
  if (last_did) became_one.push_back(kept - 1);
  long more = kept;
  for (long at : became_one) {
    if (at > 0 && times[at] - times[at - 1] > 1.5 * beside) times[more++] = whole(times[at] - beside);
    if (at + 1 < kept && times[at + 1] - times[at] > 1.5 * beside) times[more++] = whole(times[at] + beside);
  }
  std::sort(times, times + more);
  return more;
}

bool StopProfile::ends() const { return spans[0] + spans[1] + spans[2] + spans[3] < 1e9; }

StopProfile stop_profile(double v, double a, double most_acceleration, double most_jerk) {
  // A joint that could stop within less takes this long: whole nanoseconds are too coarse for microseconds.
  constexpr double kShortest = 1e-4, kLeast = 1e-9;  // s; share of the jerk
  const double wanted = std::max({std::abs(a) / kShortest, std::abs(v) / (kShortest * kShortest), kLeast * most_jerk});
  const double jerk = std::min(wanted, most_jerk);
  const double back = std::max(std::abs(a) - most_acceleration, 0.0) / jerk, against = -std::copysign(jerk, a);
  v += a * back + against * back * back / 2;
  a += against * back;
  // The peak of acceleration is against the velocity that would be left if the acceleration went to 0 at once.
  const double way = v + a * std::abs(a) / (2 * jerk) > 0 ? -1 : 1, missing = -way * v, own = way * a;
  const double square = own * own / 2 + jerk * missing;
  if (!std::isfinite(square)) return {{HUGE_VAL}, {}};  // beyond all measure
  const double peak = std::min(std::sqrt(std::max(square, 0.0)), most_acceleration);
  const double more = missing - (2 * peak * peak - own * own) / (2 * jerk), holds = more > 0 ? more / peak : 0;
  return {{back, std::max(peak - own, 0.0) / jerk, holds, peak / jerk}, {against, way * jerk, 0, -way * jerk}};
}

long pieces_of_profile(const double* spans, const double* jerks, long count, const double* begin, const ProfileEnd& end,
                       double* knots, double* coefficients) {
  constexpr long kSize = kLargestSize;
  const bool given = !std::isnan(end.duration);
  double p = begin[0], v = begin[1], a = begin[2], time = 0;
  long pieces = 0;
  knots[0] = 0;
  std::fill_n(coefficients, count * kSize, 0.0);
  for (long place = 0; place < count; ++place) {
    const double jerk = jerks[place];
    time += spans[place];
    double knot = std::nearbyint(time * 1e9) * 1e-9;
    if (given && (knot > end.duration || place == count - 1)) knot = end.duration;
    const double h = knot - knots[pieces];
    if (h <= 0) continue;
    const double cubic[] = {p, v, a / 2, jerk / 6};
    std::copy_n(cubic, 4, coefficients + pieces * kSize);
    knots[++pieces] = knot;
    p += (v + (a / 2 + jerk / 6 * h) * h) * h;
    v += (a + jerk / 2 * h) * h;
    a += jerk * h;
  }
  if (pieces == 0) {
    coefficients[0] = p;
    knots[++pieces] = std::max(given ? end.duration : time, 1e-9);
    v = a = 0;
  }
  const double span = knots[pieces], dv = end.state[1] - v, da = end.state[2] - a;
  const double dp = end.velocity_only ? dv * span / 2 - da * span * span / 12 : end.state[0] - p;
  const double cube = span * span * span;
  const double growing[kSize] = {0, 0, 0,
                                 (10 * dp - 4 * dv * span + da * span * span / 2) / cube,
                                 (-15 * dp + 7 * dv * span - da * span * span) / (cube * span),
                                 (6 * dp - 3 * dv * span + da * span * span / 2) / (cube * span * span)};
  add(growing, kSize, 1, knots, pieces, coefficients);
  return pieces;
}

}  // namespace traj_integrator::execution
