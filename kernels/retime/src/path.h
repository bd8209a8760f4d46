// A path: joint positions as piecewise polynomials of a phase s.
#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

namespace traj_integrator::retiming {

// Rows of one trajectory, [W, D]; velocity and acceleration are derivatives by the phase, or null. `knots` are the
// phases of the rows, or null: distances between the positions. Without velocities, the path is a C2 cubic spline; else what
// a controller plays.
struct PathRows {
  int64_t rows, dof;
  const double* position;
  const double* velocity;
  const double* acceleration;
  const double* knots;
  bool rests;  // without velocities: the spline begins and ends with velocity 0 instead of acceleration 0
};

class Path {
 public:
  // Returns false if all rows are equal, so that there is nothing to time. `unfolds`: the path gets a phase that is smooth
  // where the path turns back.
  bool build(const PathRows& rows, bool unfolds);

  int64_t dof() const { return dof_; }
  int64_t pieces() const { return static_cast<int64_t>(knots_.size()) - 1; }
  const std::vector<double>& knots() const { return knots_; }
  double begin() const { return knots_.front(); }
  double end() const { return knots_.back(); }
  // The knot of each given row: rows that repeat the one before share its knot.
  const std::vector<int64_t>& knot_of_row() const { return knot_of_row_; }
  // The same of the spline through the rows.
  const std::vector<int64_t>& spline_knot_of_row() const { return spline_knot_of_row_; }
  // For a path that turns back: phase of each row and turn, its piece of the spline, and the part of that.
  const std::vector<double>& passed() const { return passed_; }
  // Phases at which it turns back, if they are smooth.
  const std::vector<double>& turns() const { return turns_; }
  // Returns whether the third derivative does not jump at a knot.
  bool is_smooth(int64_t knot) const { return smooth_[knot]; }
  // Position and derivatives by s, [D] each, of one piece; pointers that are null are left out. Element j is written to
  // out[j * stride].
  void evaluate(int64_t piece, double s, double* q, double* q1, double* q2, double* q3, int64_t stride = 1) const;

 private:
  void choose_rows(const PathRows& rows);
  void unfold();
  // The polynomials between states at the knots; accelerations may be null.
  void join(const double* position, const double* velocity, const double* acceleration);

  int64_t dof_ = 0, degree_ = 3;
  std::vector<double> knots_, coefficients_;  // coefficients [pieces, degree + 1, D], powers of s - knot
  std::vector<int64_t> kept_, knot_of_row_;   // rows that are knots; the knot of each row
  std::vector<int64_t> spline_knot_of_row_;
  std::vector<double> positions_, velocities_, passed_, turns_;
  std::vector<char> smooth_;
};

}  // namespace traj_integrator::retiming
