// Pieces of a motion at other knots, as in `reference.py`.
#pragma once

#include <vector>

#include "pieces.h"

namespace traj_integrator::execution {

constexpr long kPlacedSize = 6;

// Where a joint's motion comes from.
struct JointSource {
  Pieces motion;
  long column;
};

// Writes joints to `out` [knots.count, kPlacedSize, joints.size()]: for each interval the piece in its middle, at rest
// after the end of its motion.
void place(const std::vector<JointSource>& joints, const Knots& knots, double* out);

// The increasing times that several motions have as knots, at whole nanoseconds: sorts `times` [count] in place, without
// those that come less than `gap` after another one, or before the last. In long pieces, others follow those that became
// one by `beside`. Returns how many there are then, at most three times as many.
long united_knots(double* times, long count, double gap, double beside);

}  // namespace traj_integrator::execution
