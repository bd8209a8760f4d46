// Motions as in `motion.py`: polynomial pieces, coefficients [count, size, dof] of powers of the time since a piece
// began.
#pragma once

namespace traj_integrator::execution {

struct Knots {
  const double* times;  // [count + 1], s
  long count;           // of pieces

  double step(long piece) const { return times[piece + 1] - times[piece]; }
};

struct Pieces {
  const double* coefficients;
  Knots knots;
  long size;  // degree + 1
  long dof;

  const double* at(long piece) const { return coefficients + piece * size * dof; }
};

// Value, velocity and acceleration of the last piece at its end: three times [dof].
void end_of(const Pieces& motion, double* position, double* velocity, double* acceleration);

}  // namespace traj_integrator::execution
