// What rows mean: the smooth motion near them, as near as their noise lets it.
#pragma once

namespace traj_integrator::execution {

struct RowsProblem {
  const double* times;      // [count], s, increasing
  const double* rows;       // [count, dof]
  long count, dof;
  bool increments;  // noise is in the means of velocities between rows
  bool rests;       // the last row is exact, and there velocity and acceleration are 0
  const double* most_moved;  // [dof], distance by which a row may move whatever the noise is
};

struct RowsResult {
  double* knots;         // [pieces + 1]
  double* coefficients;  // [pieces, 4, dof]
  double* noise;         // [dof], standard deviation of a row
};

// Number of pieces of the result.
long pieces_through(long count, bool rests);

// Cubic pieces, continuous up to the acceleration, with the least sum of squares of distances from rows and of jerk; the
// sizes of both are those of maximum restricted likelihood. Through the rows if that finds no noise.
void interpolate(const RowsProblem& problem, const RowsResult& result);

}  // namespace traj_integrator::execution
