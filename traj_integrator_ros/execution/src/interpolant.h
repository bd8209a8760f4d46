// What rows mean: the smooth motion near them, as near as their noise lets it.
#pragma once

namespace traj_integrator::execution {

struct RowsProblem {
  const double* times;      // [count], s, increasing
  const double* rows;       // [count, dof]
  const double* variances;  // [count], of each row's noise, relative
  long count, dof;
  bool increments;  // noise is in the means of velocities between rows: variances [count - 1]
  bool rests;       // the last row is exact, and there velocity and acceleration are 0
  long repeated;             // number of other rows at the same times
  const double* repeats;     // [dof], sum of squares of their differences, relative to variances
  const double* most_moved;  // [dof], distance by which a row may move whatever the noise is
};

struct RowsResult {
  double* knots;         // [pieces + 1]
  double* coefficients;  // [pieces, 4, dof]
  double* noise;         // [dof], standard deviation of a row of variance 1
};

// Number of pieces of the result.
long pieces_through(long count, bool rests);

// Cubic pieces, continuous up to the acceleration, with the least sum of squares of distances from rows and of jerk; the
// sizes of both are those of maximum restricted likelihood. Through the rows if that finds no noise.
void interpolate(const RowsProblem& problem, const RowsResult& result);

}  // namespace traj_integrator::execution
