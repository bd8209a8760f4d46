// Exact extremes of the motion that a controller plays between points.
#pragma once

namespace traj_integrator::retiming {

constexpr int kDegree = 5;   // of the polynomials, at most
constexpr int kOrders = 4;   // position, velocity, acceleration, jerk

// Least and greatest value of a polynomial of `span` seconds and of its first three derivatives, exact up to rounding:
// widens low[4] and high[4]. `coefficients` are those of powers of the time from its begin, kDegree + 1 of them.
void widen_by_piece(const double* coefficients, double span, double* low, double* high);

// Coefficients of what a controller plays between two states: a quintic, a cubic where a0 and a1 are null, linear where
// v0 and v1 are null. The states of one joint.
void piece_between(double span, double p0, double p1, const double* v0, const double* v1, const double* a0,
                   const double* a1, double* coefficients);

}  // namespace traj_integrator::retiming
