#include "path.h"

#include <algorithm>
#include <cmath>
#include <type_traits>

#include "polynomials.h"

namespace traj_integrator::retiming {
namespace {

// Rows repeat the previous one if they are closer to it than a rounding to float32 of the largest position moves them, or than
// the step of the finest encoders, rad; in a path of short distances, than a share of the longest one.
constexpr double kFloat32 = 0x1p-22, kEncoder = 1e-6, kShareOfLongest = 1e-3;
// A path that leads no joint further than this, rad, is none: neither encoders nor the digits of its rows tell where it leads.
constexpr double kNoPath = 1e-8;

// k! / (k - order)!
constexpr double falling(int k, int order) { return order == 0 ? 1 : k * falling(k - 1, order - 1); }

// A derivative of polynomials at e; coefficients [degree + 1, D].
template <int degree, int order>
void differentiate(const double* c, int64_t dof, double e, double* out, int64_t stride) {
  for (int64_t j = 0; j < dof && out != nullptr; ++j) {
    double sum = falling(degree, order) * c[degree * dof + j];
    for (int k = degree - 1; k >= order; --k) sum = sum * e + falling(k, order) * c[k * dof + j];
    out[j * stride] = sum;
  }
}

}  // namespace

bool Path::build(const PathRows& rows, bool unfolds) {
  dof_ = rows.dof;
  choose_rows(rows);
  if (kept_.size() < 2) return false;
  positions_.clear();
  for (const int64_t row : kept_) {
    const double* const position = rows.position + row * dof_;
    positions_.insert(positions_.end(), position, position + dof_);
  }
  const double *velocity = rows.velocity, *const acceleration = rows.acceleration;  // of all rows
  if (velocity == nullptr) {
    velocities_.resize(positions_.size());
    const SplineEnd& end = rows.rests ? kAtRest : kWithoutAcceleration;
    spline_velocities(knots_.data(), pieces(), positions_.data(), dof_, end, end, velocities_.data());
    velocity = velocities_.data();
  }
  join(positions_.data(), velocity, acceleration);
  spline_knot_of_row_ = knot_of_row_;
  passed_.clear();
  turns_.clear();
  if (unfolds) unfold();
  return true;
}

void Path::join(const double* position, const double* velocity, const double* acceleration) {
  degree_ = acceleration == nullptr ? 3 : kDegree;
  coefficients_.resize(pieces() * (degree_ + 1) * dof_);
  for (int64_t i = 0; i < pieces(); ++i) {
    const double *const p = position + i * dof_, *const v = velocity + i * dof_;
    const double* const a = acceleration == nullptr ? nullptr : acceleration + i * dof_;
    double* const to = &coefficients_[i * (degree_ + 1) * dof_];
    piece_between(knots_[i + 1] - knots_[i], dof_, p, p + dof_, v, v + dof_, a, a + dof_, to);
  }
  smooth_.assign(pieces() + 1, 0);
}

void Path::choose_rows(const PathRows& rows) {
  const int64_t count = rows.rows, dof = rows.dof;
  const bool own = rows.knots == nullptr;
  kept_.assign(1, 0);
  knots_.assign(1, own ? 0.0 : rows.knots[0]);
  knot_of_row_.assign(count, 0);
  const auto distance = [&](int64_t a, int64_t b) {
    double sum = 0;
    for (int64_t j = 0; j < dof; ++j) {
      const double d = rows.position[a * dof + j] - rows.position[b * dof + j];
      sum += d * d;
    }
    return std::sqrt(sum);
  };
  double longest = 0, largest = 0, furthest = 0;
  for (int64_t i = 1; i < count && own; ++i) longest = std::max(longest, distance(i, i - 1));
  for (int64_t k = 0; k < count * dof && own; ++k) {
    largest = std::max(largest, std::abs(rows.position[k]));
    furthest = std::max(furthest, std::abs(rows.position[k] - rows.position[k % dof]));
  }
  if (own && furthest <= kNoPath) return;
  const double same = std::min(std::max(kFloat32 * largest, kEncoder), kShareOfLongest * longest);
  for (int64_t i = 1; i < count; ++i) {
    const double length = own ? distance(i, kept_.back()) : 0;
    if (!own || (length > same)) {
      kept_.push_back(i);
      knots_.push_back(own ? knots_.back() + length : rows.knots[i]);
    } else if (i + 1 == count && kept_.size() > 1) {
      kept_.back() = i;  // the last row is met exactly
    }
    knot_of_row_[i] = static_cast<int64_t>(kept_.size()) - 1;
  }
}

void Path::evaluate(int64_t piece, double s, double* q, double* q1, double* q2, double* q3, int64_t stride) const {
  const double e = s - knots_[piece], *const c = &coefficients_[piece * (degree_ + 1) * dof_];
  const auto all = [&]<int degree>(std::integral_constant<int, degree>) {
    differentiate<degree, 0>(c, dof_, e, q, stride);
    differentiate<degree, 1>(c, dof_, e, q1, stride);
    differentiate<degree, 2>(c, dof_, e, q2, stride);
    differentiate<degree, 3>(c, dof_, e, q3, stride);
  };
  degree_ == 3 ? all(std::integral_constant<int, 3>()) : all(std::integral_constant<int, kDegree>());
}

}  // namespace traj_integrator::retiming
