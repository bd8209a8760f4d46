// How far joints go back while they join plans, as in `reaching.py`.
#pragma once

namespace traj_integrator::execution {

// Positions [rows, dof] at times that ascend.
struct Samples {
  const double* positions;
  long rows;
};

struct RetreatRules {
  double forward, rings, rests, share, least;
};

// Where `stopping` [2, dof] are the least and greatest positions of a stop from the present state, and plans that go back
// by at most a share [dof] of their way are judged; writes `back` [dof].
void retreats(const Samples& planned, const Samples& moved, const double* begin, const double* stopping,
              const double* shares, long dof, const RetreatRules& rules, double* back);

}  // namespace traj_integrator::execution
