#include "batch.h"

#include <algorithm>

#include "threads.h"

namespace traj_integrator::retiming {
namespace {

template <class T>
void write(const std::vector<T>& from, T* to, int64_t width) {
  std::copy_n(from.begin(), std::min<int64_t>(width, static_cast<int64_t>(from.size())), to);
}

void retime_one(const Batch& all, int64_t b) {
  thread_local Retimer retimer;
  const int64_t size = all.rows * all.dof;
  const auto row = [&](const double* from) { return from == nullptr ? nullptr : from + b * size; };
  const PathRows rows{all.rows, all.dof, row(all.position), row(all.velocity), row(all.acceleration), all.knots, all.options.slow_only};
  const auto limit = [&](int kind) { return all.limits[kind] + b * all.limits_stride; };
  const double* const ends = all.ends + 4 * b;
  Options options = all.options;
  options.duration = all.duration == nullptr ? 0 : all.duration[b];
  const Status status = retimer.retime(rows, {limit(0), limit(1), limit(2), limit(3)}, {ends[0], ends[1], ends[2], ends[3]}, options);

  const Played& played = retimer.played;
  int64_t* const info = all.info + 6 * b;
  double* const scalars = all.scalars + 5 * b;
  info[0] = static_cast<int64_t>(status);
  info[2] = retimer.unchanged;
  scalars[0] = retimer.duration;
  scalars[1] = retimer.largest_start_speed;
  write(played.segment_ratio, all.segment_ratio + b * 3 * (all.rows - 1), 3 * (all.rows - 1));
  write(played.segment_joint, all.segment_joint + b * 3 * (all.rows - 1), 3 * (all.rows - 1));
  if (status != Status::kDone && status != Status::kExceeds && status != Status::kStill) return;
  info[1] = static_cast<int64_t>(played.times.size());
  std::copy_n(played.ratio, 3, scalars + 2);
  write(played.times, all.times + b * all.points, all.points);
  const std::vector<double>* const states[] = {&played.position, &played.velocity, &played.acceleration};
  for (int64_t k = 0; k < 3; ++k) {
    const int64_t width = all.points * all.dof;
    write(*states[k], all.states + (k * all.batch + b) * width, width);
  }
  write(played.row_times, all.row_times + b * all.rows, all.rows);
  if (status == Status::kStill || retimer.unchanged) return;
  if (options.order != 3) return;
  info[3] = retimer.iterations;
  info[4] = retimer.rounds;
  if (all.adjoint == nullptr || retimer.third.gradient_points() > all.gradient_points) return;
  info[5] = retimer.third.gradient_points();
  const int64_t G = all.gradient_points;
  retimer.third.gradient({all.adjoint + b * G * 3 * all.dof, all.phase + b * G * 4, all.piece + b * G,
                          all.by_limits + b * 4 * all.dof});
  write(retimer.path.knot_of_row(), all.knot_of_row + b * all.rows, all.rows);
}

}  // namespace

void retime(const Batch& batch, int64_t threads) {
  on_threads(batch.batch, threads, [&](int64_t b) { retime_one(batch, b); });
}

}  // namespace traj_integrator::retiming
