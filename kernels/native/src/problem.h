// The arguments of one call for the loops: raw pointers and strides, no framework.
//
// Everything is computed in double for every storage type: differences of single-precision positions stay exact through
// three orders, running sums keep their digits over any horizon, and memory traffic, not arithmetic, limits the speed.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <type_traits>
#include <utility>

#if defined(__x86_64__)
#include <immintrin.h>
#endif

#include "traj_integrator/control_map.h"

namespace traj_integrator {

constexpr int kOutputs = 4;     // position, velocity, acceleration, jerk
constexpr int kStartRows = 4;   // the same, at the start

// Step lengths, s. Both strides may be 0: one value for all trajectories, one for all steps.
struct StepLengths {
  const double* data;
  int64_t batch_stride;
  int64_t step_stride;
};

// Start row of each trajectory: its own, or the one that an index names.
struct StartIndex {
  const void* data = nullptr;
  bool is_int64 = false;

  int64_t operator()(int64_t trajectory) const {
    if (data == nullptr) return trajectory;
    return is_int64 ? static_cast<const int64_t*>(data)[trajectory] : static_cast<const int32_t*>(data)[trajectory];
  }
};

template <class Scalar>
struct ForwardProblem {
  ControlMap map;
  int64_t action_horizon;
  int64_t dof;
  const Scalar* action;              // [B, Ha, D]
  const Scalar* start[kStartRows];   // [rows, D] each; null means 0
  int64_t start_stride[kStartRows];  // D, or 0 where one row serves all
  StartIndex start_index;
  StepLengths dt;
  Scalar* output[kOutputs];          // [B, H, D]
  int64_t staged;                    // trajectories to collect before streaming them past the caches; 0: do not
};

template <class Scalar>
struct VjpProblem {
  ControlMap map;
  int64_t action_horizon;
  int64_t dof;
  const Scalar* gradient[kOutputs];  // [B, H, D] each; null means 0
  StepLengths dt;
  bool truncate_terminal;            // of the central difference
  Scalar* action;                    // [B, Ha, D], or null where not wanted
  double* start[kStartRows];         // [B, D] each, to be summed over a pool; or null
  Scalar* start_row[kStartRows];     // [B, D] each, where every trajectory has a start row of its own; or null
  bool wants_start;                  // any of the eight
  int64_t staged;                    // as above
};

inline int64_t output_horizon(ControlMap map, int64_t action_horizon) {
  return action_horizon + row_of(map).extra_horizon;
}

// The loops work through a trajectory in blocks of rows that fit the innermost cache.
inline int64_t block_rows(int64_t horizon, int64_t dof) {
  constexpr int64_t kBlockElements = 512;
  return std::min(horizon, std::max<int64_t>(1, kBlockElements / std::max<int64_t>(1, dof)));
}

// Whether the loops keep rows in registers, where the instruction set allows it: a row of few joints does not fill them, and
// a long trajectory with many joints is better read once, from end to end, than several times.
inline bool rows_in_registers(int64_t dof, int64_t horizon) {
  constexpr int64_t kAtOnce = 8, kMostElements = 8192;
  return dof >= 4 && (dof <= kAtOnce || horizon * dof <= kMostElements);
}

// Number of trajectories whose results, `arrays` of `size` elements each, fill about half of the innermost cache; 0 if
// streaming does not pay, because all results fit the outer caches or a single one is too long for the inner ones.
inline int64_t staged_trajectories(int64_t batch, int64_t size, int64_t arrays, size_t scalar_size) {
  constexpr int64_t kStagedBytes = 16 << 10, kLongest = 256 << 10, kOuterCache = 16 << 20;
  const int64_t bytes = std::max<int64_t>(1, arrays * size * static_cast<int64_t>(scalar_size));
  if (bytes > kLongest || bytes * batch < kOuterCache) return 0;
  return std::max<int64_t>(1, kStagedBytes / bytes);
}

// Doubles of scratch memory that one thread needs: seven blocks, each with up to eight rows of margin.
inline int64_t scratch_size(int64_t horizon, int64_t dof) { return 7 * (block_rows(horizon, dof) + 8) * dof; }

// The terms of a quadratic cost for one output; arrays of one trajectory, [H * D] each. Without any weight the output
// has no cost; without a target, the target is 0. Limit weight and both limits are given together, and limits may be
// infinite.
struct CostTerm {
  const double* weight;
  const double* target;
  const double* limit_weight;
  const double* lower;
  const double* upper;

  bool counts() const { return weight != nullptr || limit_weight != nullptr; }
};

}  // namespace traj_integrator
