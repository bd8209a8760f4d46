// The gradient of the shortest duration: by the envelope theorem, the multipliers times the derivatives of the rows.
#include <algorithm>
#include <cmath>

#include "third_order.h"

namespace traj_integrator::retiming {

void ThirdOrder::gradient(const Gradient& out) const {
  const int64_t N = base.intervals();
  const double whole = base.h * static_cast<double>(N) / std::sqrt(Y_) * stretched_;
  const double stretch = stretched_ * stretched_;  // of the solution, before it was stretched
  int64_t first = 0;
  for (const bool jerk : {false, true}) {
    const Points& points = jerk ? fast_ : slow_;
    const size_t n = static_cast<size_t>(points.padded);
    const Array &scale = jerk ? fast_scale_ : slow_scale_, &pairs = jerk ? fast_pairs_ : slow_pairs_;
    for (size_t p = 0; p < n; ++p) {
      const int64_t at = first + static_cast<int64_t>(p);
      out.piece[at] = points.piece[p];
      base.evaluate(points.interval[p], points.part[p], out.phase + 4 * at);
      double yuw[3];
      rate_at(points.interval[p], points.part[p], yuw);
      const double y = yuw[0] * stretch, u = yuw[1] * stretch, w = yuw[2] * stretch;
      double* const adjoint = out.adjoint + 3 * dof_ * at;  // of Q1, Q2, Q3: [3, D]
      for (int64_t j = 0; j < dof_; ++j) {
        const size_t k = points.at(static_cast<int64_t>(p), j), i = static_cast<size_t>(j);
        const double* const of = pairs.data() + (k - k % kLanes) * 8 + k % kLanes + kLanes;
        const double high = -whole * of[0], low = -whole * of[4 * kLanes];  // of the rows' values
        const double q1 = points.q1[k], q2 = points.q2[k], q3 = points.q3[k];
        if (jerk) {
          const double factor = inverse_jerk_[i] * scale[p], weight = (low - high) * factor;
          adjoint[j] = weight * w;
          adjoint[dof_ + j] = 3 * weight * u;
          adjoint[2 * dof_ + j] = weight * y;
          out.limits[3 * dof_ + j] -= weight * (q3 * y + 3 * q2 * u + q1 * w);
          continue;
        }
        const double up = inverse_[0][i] * scale[p], down = inverse_[1][i] * scale[p];
        const double value = q2 * y + q1 * u, weight = -(high * up + low * down);
        adjoint[j] = weight * u;
        adjoint[dof_ + j] = weight * y;
        adjoint[2 * dof_ + j] = 0;
        // What is left of the barrier at rows of the other sign is no derivative.
        out.limits[2 * dof_ + j] += high * std::max(value * up, 0.0);
        out.limits[dof_ + j] += low * std::max(value * down, 0.0);
        // The joint whose velocity bounds y.
        const double velocity = std::abs(q1) * inverse_velocity_[i];
        if (bound_inverse_[p] > 0 && velocity * velocity == velocity_bound_[p] && q1 != 0) {
          const double bound = 2 * y * bound_inverse_[p] * -whole * bound_pairs_[(p - p % kLanes) * 4 + p % kLanes + kLanes];
          adjoint[j] -= bound / q1;
          out.limits[j] += bound;
        }
      }
    }
    first += points.padded;
  }
}

}  // namespace traj_integrator::retiming
