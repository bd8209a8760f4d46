// The rows of the interior-point method: constraints at blocks of points of the path, vectorized over the points.
#pragma once

#include <cstdint>

namespace traj_integrator::retiming {

constexpr int64_t kLanes = 8;  // points of a block, for every instruction set
constexpr int64_t whole_lanes(int64_t count) { return (count + kLanes - 1) / kLanes * kLanes; }
constexpr int64_t kSums = 15;
constexpr int64_t kFineParts = 4;  // of each interval, between the points of `peaks`

// Constraints of D joints at n points, whose rates y, u, w follow from coefficients b: of acceleration and y, or of jerk.
struct Rows {
  bool of_jerk;
  int64_t blocks, regular, dof;     // the first, regular blocks are of consecutive intervals; n = kLanes blocks
  const int32_t* interval;          // [n]
  double* weight[6];                // [n]: of b_k, b_(k+1), b_(k+2), for y and for u
  double curvature[3];              // for w
  double *q1, *q2, *q3;             // [blocks, D, kLanes]: derivatives of the path by the base law's time; q3 for jerk only
  const int32_t *first, *joint;     // [blocks + 1]: where the joints of each block begin whose rows are formed, and those
  double* scale;                    // [n]: 1 / (part of the limit that may be used)
  // [D]: 1 / limit; for jerk sqrt(Y) / limit
  const double *upper, *lower;
  double* pairs;                    // [blocks, D, 2, 4, kLanes]: slack z, multiplier l and their steps, for both sides
  // With the accelerations: y <= 1 / bound with its pairs [blocks, 4, kLanes], and weights of the objective.
  double *bound, *objective;        // [n]
  double* bound_pairs;
  // r, from which the rows' values are subtracted, and its derivative by y, as in the last sums: for jerk (y /
  // Y)^(-1/2), else 1.
  double *r, *slope_r;              // [n]
  double Y;
};

// Work before summing up: part of the last steps to take; whether missed rows get room for their slack.
struct Advance {
  double primal, dual;
  bool widens;
};

struct Sums {
  // Sums for each interval: the matrix over its three coefficients, 00 01 02 11 12 22, and three right sides.
  double* of[kSums];
  double gap[kLanes], least[kLanes];  // of z l, and the least row (negative: not kept)
};

// The largest -dz / z and -dl / l.
struct Shrink {
  double z, l;
};

// The motion between two points: quintics, or cubics where `a` is null.
struct Piece {
  double span;
  int64_t dof;
  const double *p, *v, *a;   // of the point before it; the next point's are `dof` behind, and some more may be read
  const double* inverse[4];  // 1 / limits of velocity, lowest, highest, jerk: some more than D
  double known[3];           // parts of the limits
};

// Rows of the second order in one interval, low - slope x <= u <= high - slope x, and the one that reaches the next point.
struct Reach {
  const double *low, *high, *slope;
  int64_t count;  // a multiple of kLanes
  double next_low, next_high, next_slope;
};

// The grid of the second order; joints are padded to `width`, a multiple of kLanes.
struct Grid {
  int64_t width;
  const double *s, *derivative;                       // [N + 1]; [N, 4, width]: q', q'' at the begin, q', q'' at the end
  const double *inverse_velocity, *lowest, *highest;  // [width]
  const double* scale[2];                             // [N], for velocity and acceleration
  double *low, *high, *slope;                         // [N, 2, width]
  double* bound;                                      // [N + 1]: x <= bound, to be lowered
};

struct RowLoops {
  // Raises z to the rows' values, too.
  void (*sum_up)(const Rows&, const double* b, const Advance&, Sums&);
  // Steps of z and l for the step db, and a barrier mu.
  void (*step)(const Rows&, const double* b, const double* db, double mu, Shrink&);
  // Raises `worst` [N] to the greatest velocity (squared), acceleration and jerk relative to the limits in each interval;
  // regular blocks are kFineParts + 1 for the same intervals, one after the other, between which parabolas are taken.
  void (*peaks)(const Rows&, const double* inverse_jerk, const double* b, double* const worst[3]);
  // Bits of kLanes joints that may exceed the known parts of their limits: quintics by Bernstein coefficients, which
  // bound the motion; cubics exactly, with their ratios [3, kLanes].
  uint32_t (*may_exceed)(const Piece&, int64_t joint, double* ratio);
  // The rows of one interval.
  void (*form_rows)(const Grid&, int64_t interval);
  // The x next to `x` where the least upper bound of u is not below the greatest lower one, in the direction of `sign`
  // (-1: the largest x at most `x`); NaN: there is none.
  double (*closes)(const Reach&, double x, double sign);
  // The least upper bound of u.
  double (*fastest)(const Reach&, double x);
};

// For the instruction set of this CPU. The results are the same to the last bit on each of them.
const RowLoops& row_loops();

}  // namespace traj_integrator::retiming
