// The polynomials that a controller plays between points, a C2 spline through positions, and exact extremes.
#pragma once

#include <cstdint>

namespace traj_integrator::retiming {

constexpr int kDegree = 5;   // of the polynomials, at most
constexpr int kOrders = 4;   // position, velocity, acceleration, jerk
constexpr double kFactors[kOrders][kDegree + 1] = {  // factors of coefficients in derivatives
    {1, 1, 1, 1, 1, 1}, {0, 1, 2, 3, 4, 5}, {0, 0, 2, 6, 12, 20}, {0, 0, 0, 6, 24, 60}};

// Least and greatest value of a polynomial of `span` seconds and of its first three derivatives, exact up to rounding:
// widens low[4] and high[4]. `coefficients` are those of powers of the time from its begin, kDegree + 1 of them.
void widen_by_piece(const double* coefficients, double span, double* low, double* high);

// Coefficients [6, D] of a controller's interpolation between two states: a quintic; a cubic, [4, D], if a0 and a1 are
// null; linear, [2, D], if v0 and v1 are null.
void piece_between(double span, int64_t dof, const double* p0, const double* p1, const double* v0, const double* v1,
                   const double* a0, const double* a1, double* coefficients);

// The velocity v at an end of a spline, from that of the other knot of its piece and the secant of the piece:
// v + other * v_other = slope * secant, or a given one, [D].
struct SplineEnd {
  double other = 0, slope = 0;
  const double* given = nullptr;
};
constexpr SplineEnd kAtRest{}, kWithoutAcceleration{0.5, 1.5};

// Velocities [pieces + 1, D] at the knots of the C2 cubic spline through positions [pieces + 1, D].
void spline_velocities(const double* knots, int64_t pieces, const double* positions, int64_t dof, const SplineEnd& begin,
                       const SplineEnd& end, double* velocities);

}  // namespace traj_integrator::retiming
