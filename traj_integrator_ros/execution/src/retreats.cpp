#include "retreats.h"

#include <algorithm>
#include <cmath>

namespace traj_integrator::execution {
namespace {

struct Way {
  double least, most, back, swing;  // back: the longest way against a sign; swing: from its last position
};

Way way_of(const Samples& samples, long joint, long dof, double sign) {
  const double last = samples.positions[(samples.rows - 1) * dof + joint];
  Way way{HUGE_VAL, -HUGE_VAL, 0, 0};
  double furthest = -HUGE_VAL;
  for (long row = 0; row < samples.rows; ++row) {
    const double p = samples.positions[row * dof + joint];
    furthest = std::max(furthest, sign * p);
    way = {std::min(way.least, p), std::max(way.most, p), std::max(way.back, furthest - sign * p),
           std::max(way.swing, std::fabs(p - last))};
  }
  return way;
}

}  // namespace

void retreats(const Samples& planned, const Samples& moved, const double* begin, const double* stopping,
              const double* shares, long dof, const RetreatRules& rules, double* back) {
  for (long joint = 0; joint < dof; ++joint) {
    const double low = stopping[joint], high = stopping[dof + joint], here = begin[joint];
    const double last = planned.positions[(planned.rows - 1) * dof + joint];
    const double goes = last - planned.positions[joint], gap = last - here;
    const double total = std::fabs(goes) > rules.forward * std::fabs(gap) ? goes : gap;
    const double sign = total < 0 ? -1 : 1;
    const Way plan = way_of(planned, joint, dof, sign), way = way_of(moved, joint, dof, sign);
    const double rolls = sign > 0 ? here - low : high - here;
    const double may_ring = std::max(shares[joint] * std::fabs(total), std::min(rules.rings, std::fabs(total) / 2));
    double most = 0;
    if (plan.back <= may_ring) most = way.back - rules.share * (plan.back + rolls) - rules.least;
    if (plan.swing <= rules.rests) {
      const double beyond = std::max(way.most - std::max(plan.most, high), std::min(plan.least, low) - way.least);
      most = std::max(most, beyond - (rules.share - 1) * plan.swing - rules.least);
    }
    back[joint] = std::max(most, 0.0);
  }
}

}  // namespace traj_integrator::execution
