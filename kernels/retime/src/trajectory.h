// Retiming of one trajectory, from rows to points that a controller plays.
#pragma once

#include <algorithm>
#include <cstdint>
#include <memory>
#include <vector>

#include "legs.h"
#include "limits.h"
#include "path.h"
#include "second_order.h"

namespace traj_integrator::retiming {

struct Options {
  int64_t order = 3, intervals = 100;
  bool slow_only = false;
  bool hold = true;      // second order: keep the limits between the points of the grid, too
  double duration = 0;   // wanted, s; 0: the shortest
  // Slow only: whether parts of a plan may be slowed by themselves; a part keeps its rate where another joins it.
  bool in_parts = true, joins_before = false, joins_after = false;

  // Most points of a motion of so many rows.
  int64_t most_points(int64_t rows) const { return std::max(order == 3 ? 2 * intervals + 1 + rows : intervals + 1, rows); }
};

// The played trajectory: states at times, between which the controller interpolates. Times are whole nanoseconds.
struct Played {
  std::vector<double> times, position, velocity, acceleration;  // [P], [P, D]; no accelerations: cubics
  // of the piece after a point: the row before it, and its interval of the grid
  std::vector<int64_t> segment, interval;
  std::vector<double> row_times;                                // [W]
  double ratio[3];                                              // the greatest of all pieces: velocity, acceleration, jerk
  std::vector<double> segment_ratio;                            // [W - 1, 3], and the joints that reach them
  std::vector<int64_t> segment_joint;

  void clear() {
    for (auto* each : {&times, &position, &velocity, &acceleration}) each->clear();
    segment.clear();
    interval.clear();
  }
  double worst() const { return std::max({ratio[0], ratio[1], ratio[2]}); }
  // The greatest ratios, from those of the segments.
  void set_ratio() {
    std::fill_n(ratio, 3, 0.0);
    for (size_t i = 0; i < segment_ratio.size(); ++i) ratio[i % 3] = std::max(ratio[i % 3], segment_ratio[i]);
  }
};

class Retimer {
 public:
  Status retime(const PathRows& rows, const Limits& limits, const Ends& ends, const Options& options);

  double duration = 0, largest_start_speed = 0;
  int64_t iterations = 0, rounds = 0;  // for the third order
  bool unchanged = false;  // slow only: the plan keeps its limits unchanged
  Path path;
  Legs third;
  Played played;

 private:
  Status time(const Limits& limits);
  Status solve(const Limits& limits);
  Status solve_for_duration(const Limits& limits);
  template <class Solve>
  Status lower_limits(const Limits& limits, const Solve& solve_once);
  double range() const;
  double along_path(int64_t piece, double s, double& speed, double& acceleration) const;
  bool slow_parts(const PathRows& rows, const Limits& limits, const Ends& ends);
  void play();
  void play_second();
  void play_third();
  void play_leg(const ThirdOrder& leg, double begin, int64_t first_interval);
  void add_point(double time, int64_t piece, double s, double speed, double acceleration);
  void certify(const Limits& limits);
  bool plan_keeps(const PathRows& rows, const Limits& limits);

  SecondOrder second_;
  Ends ends_;
  Options options_;
  std::unique_ptr<Retimer> part_;
  std::vector<int64_t> segment_of_piece_;
  std::vector<double> interval_ratio_;  // [3 N], where it exceeds 1
  std::vector<double> knot_times_;
};

}  // namespace traj_integrator::retiming
