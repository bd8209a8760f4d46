#include <algorithm>
#include <cmath>
#include <numeric>
#include <vector>

#include "motions.h"

namespace traj_integrator::execution {
namespace {

constexpr double kLongestStop = 1e9;  // s; a longer one shows that there is none

double whole(double time) { return std::nearbyint(time * 1e9) * 1e-9; }

// Sorts times [count], whole ones, and merges those that are closer than `gap`; returns how many there are then.
long merge(double* times, long count, double gap, double beside) {
  std::sort(times, times + count);
  for (long i = 0; i < count; ++i) times[i] = whole(times[i]);
  const double last = std::max(times[count - 1], gap);
  std::vector<char> is_merged(count + 1, 0);
  long kept = 1;
  bool is_last_merged = false;
  for (long i = 1; i < count; ++i) {
    const double after = times[i] - times[kept - 1], before = last - times[i];
    if (after >= gap && before >= gap) {
      times[kept++] = times[i];
    } else if (before > 0) {
      is_last_merged |= before < gap;
      if (after > 0 && after < gap) is_merged[kept - 1] = 1;
    }
  }
  is_merged[kept] = is_last_merged;
  times[kept++] = last;
  long more = kept;
  for (long at = 1; at < kept; ++at) {
    if (is_merged[at] && times[at] - times[at - 1] > 1.5 * beside) times[more++] = whole(times[at] - beside);
    if (is_merged[at - 1] && times[at] - times[at - 1] > 1.5 * beside) times[more++] = whole(times[at - 1] + beside);
  }
  std::sort(times, times + more);
  return more;
}

}  // namespace

long unite(const Pieces* motions, long joints, long more, double gap, double beside, double* knots, double* out) {
  double* end_of_knots = knots + more;
  for (long joint = 0; joint < joints; ++joint) {
    end_of_knots = std::copy_n(motions[joint].knots.times, motions[joint].knots.count + 1, end_of_knots);
  }
  const long intervals = merge(knots, end_of_knots - knots, gap, beside) - 1;
  for (long joint = 0; joint < joints; ++joint) {
    const Pieces& motion = motions[joint];
    double c[kSize];
    for (long interval = 0, piece = 0; interval < intervals; ++interval) {
      cut(motion, 0, knots[interval], knots[interval + 1], piece, c);
      double* to = out + interval * kSize * joints + joint;
      for (long power = 0; power < kSize; ++power) to[power * joints] = c[power];
    }
  }
  return intervals;
}

long stop(const State& begin, double most_acceleration, double most_jerk, double* knots, double* coefficients) {
  // A joint that could stop within less takes this long: whole nanoseconds are too coarse for microseconds.
  constexpr double kShortest = 1e-4, kLeast = 1e-9;  // s; share of the jerk
  double v = begin.velocity, a = begin.acceleration;
  const double wanted = std::max({std::abs(a) / kShortest, std::abs(v) / (kShortest * kShortest), kLeast * most_jerk});
  const double jerk = std::min(wanted, most_jerk);
  const double back = std::max(std::abs(a) - most_acceleration, 0.0) / jerk, against = -std::copysign(jerk, a);
  v += a * back + against * back * back / 2;
  a += against * back;
  // The peak of acceleration is against the velocity that would be left if the acceleration went to 0 at once.
  const double way = v + a * std::abs(a) / (2 * jerk) > 0 ? -1 : 1, missing = -way * v, own = way * a;
  const double peak_square = own * own / 2 + jerk * missing;
  if (!std::isfinite(peak_square)) return 0;
  const double peak = std::min(std::sqrt(std::max(peak_square, 0.0)), most_acceleration);
  const double more = missing - (2 * peak * peak - own * own) / (2 * jerk), holds = more > 0 ? more / peak : 0;
  const double spans[kStopPieces] = {back, std::max(peak - own, 0.0) / jerk, holds, peak / jerk};
  const double jerks[kStopPieces] = {against, way * jerk, 0, -way * jerk};
  return profile(begin, spans, jerks, kStopPieces, nullptr, knots, coefficients);
}

long profile(State x, const double* spans, const double* jerks, long count, const double* place, double* knots,
             double* coefficients) {
  const double lasts = std::accumulate(spans, spans + count, 0.0);
  if (!(lasts < kLongestStop) || !std::isfinite(lasts + x.position)) return 0;
  double time = 0;
  long pieces = 0;
  knots[0] = 0;
  std::fill_n(coefficients, count * kSize, 0.0);
  for (long i = 0; i < count; ++i) {
    time += spans[i];
    const double knot = whole(i == count - 1 ? lasts : time);
    const Interval interval(knot - knots[pieces]);
    if (interval.step <= 0) continue;
    const double cubic[] = {x.position, x.velocity, x.acceleration / 2, jerks[i] / 6};
    std::copy_n(cubic, 4, coefficients + pieces * kSize);
    knots[++pieces] = knot;
    x = interval.after(x, jerks[i]);
  }
  if (pieces == 0) {
    coefficients[0] = place == nullptr ? x.position : *place;
    knots[++pieces] = 1e-9;
    return pieces;
  }
  // What rounding has left grows from nothing over all of the time.
  const double span = knots[pieces], dv = -x.velocity, da = -x.acceleration;
  const double free = span * (dv / 2 - da * span / 12);  // by a quartic
  double growing[kSize];
  grow(span, {place == nullptr ? free : *place - x.position, dv, da}, growing);
  for (long piece = 0; piece < pieces; ++piece) {
    double moved[kSize];
    std::copy_n(growing, kSize, moved);
    shift(moved, knots[piece]);
    for (const double number : moved) *coefficients++ += number;
  }
  return pieces;
}

}  // namespace traj_integrator::execution
