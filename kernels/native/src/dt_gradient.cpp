// Gradient of the step lengths: the chain rule of `kernels/vjps.py`, one trajectory at a time, all in double.
#include "dt_gradient.h"

#include <algorithm>
#include <numeric>
#include <vector>

#include "parallel.h"

namespace traj_integrator {
namespace {

constexpr int64_t kGradientGrainElements = 4096;  // elements below which a second thread costs more than it saves

// The memory that a thread needs for one trajectory: rows [H, D] of the outputs, and running sums from the last row
// back.
template <class Scalar>
struct Scratch {
  Scratch(int64_t rows, int64_t dof)
      : dof(dof), memory(static_cast<size_t>((rows + 1) * 4 * dof)), zeros(static_cast<size_t>(dof)) {
    for (int k = 0; k < 4; ++k) {
      output[k] = memory.data() + k * rows * dof;
      carried[k] = memory.data() + (4 * rows + k) * dof;
    }
  }

  void reset() { std::fill(carried[0], carried[0] + 4 * dof, 0.0); }

  int64_t dof;
  std::vector<double> memory;
  std::vector<Scalar> zeros;  // [D], stands for a row of an absent gradient
  double* output[4];   // position, velocity, acceleration, jerk (central: the points in place of the position)
  double* carried[4];  // [D] each
};

// One trajectory of the problem.
template <class Scalar>
class Trajectory {
 public:
  Trajectory(const ForwardProblem<Scalar>& problem, int64_t b, Scratch<Scalar>& scratch)
      : dof_(problem.dof),
        horizon_(output_horizon(problem.map, problem.action_horizon)),
        action_(problem.action + b * problem.action_horizon * problem.dof),
        dt_(problem.dt.data + b * problem.dt.batch_stride),
        dt_stride_(problem.dt.step_stride),
        scratch_(scratch) {
    for (int k = 0; k < kOutputs; ++k) {
      gradient_[k] = problem.output[k] == nullptr ? nullptr : problem.output[k] + b * horizon_ * dof_;
      start_[k] = problem.start[k] == nullptr ? nullptr : problem.start[k] + problem.start_rows(b) * problem.dof;
    }
    scratch_.reset();
  }

  // Rows 0 to Ha - 1 of the gradient.
  template <ControlMap map>
  void by_step(double* result) {
    for (int64_t d = 0; d < dof_; ++d) {
      for (int k = 0; k < kOutputs; ++k) scratch_.output[k][d] = start(k, d);
    }
    double* const p = scratch_.output[0];
    double* const v = scratch_.output[1];
    double* const a = scratch_.output[2];
    double* const j = scratch_.output[3];
    for (int64_t h = 1; h < horizon_; ++h) {
      const double step = dt(h), rate = 1 / step;
      for (int64_t i = h * dof_, d = 0; d < dof_; ++i, ++d) {
        const int64_t before = i - dof_;
        const double held = static_cast<double>(action_[before]);
        if constexpr (map == ControlMap::kJerk) {
          j[i] = held;
          a[i] = a[before] + held * step;
          v[i] = v[before] + (a[before] * step + held * step * step / 2);
          continue;
        } else if constexpr (map == ControlMap::kClique) {
          p[i] = held;
          v[i] = (p[i] - p[before]) * rate;
          // The first difference of velocities starts from the middle of the step before.
          a[i] = (v[i] - (h == 1 ? v[before] - dt(0) * a[before] / 2 : v[before])) * rate;
        } else if constexpr (map == ControlMap::kVelocity) {
          v[i] = held;
          a[i] = (v[i] - v[before]) * rate;
        } else {
          a[i] = held;
          v[i] = v[before] + held * step;
        }
        j[i] = (a[i] - a[before]) * rate;
      }
    }
    for (int64_t h = horizon_ - 1; h > 0; --h) result[h] = row<map>(h);
    result[0] = 0.0;
    if constexpr (map == ControlMap::kClique) {
      for (int64_t d = 0; d < dof_; ++d) result[0] += scratch_.carried[1][d] * start(2, d) / 2;
    }
  }

  // The one element that a central difference has.
  double central() {
    const int64_t actions = horizon_ - row_of(ControlMap::kCliqueCentral).extra_horizon;
    const double step = dt(0);
    double total = 0.0;
    double* const point = scratch_.output[0];  // [D] of each of the five points around a row, by turns
    for (int64_t d = 0; d < dof_; ++d) {
      const double p0 = start(0, d), v0 = start(1, d), a0 = start(2, d), j0 = start(3, d);
      const auto value = [&](int64_t i) {
        if (i > 3) return static_cast<double>(action_[std::min(i - 4, actions - 1) * dof_ + d]);
        const double t = static_cast<double>(i - 3) * step;
        return p0 + t * v0 + t * t / 2 * a0 + t * t * t / 6 * j0;
      };
      for (int i = 0; i < 4; ++i) point[i + 1] = value(i);
      double by_ghost[3] = {0.0, 0.0, gradient(0, 0, d)};
      for (int64_t h = 0; h < horizon_; ++h) {
        std::copy(point + 1, point + 5, point);
        point[4] = value(h + 4);
        double first[4], second[3];
        for (int i = 0; i < 4; ++i) first[i] = point[i + 1] - point[i];
        for (int i = 0; i < 3; ++i) second[i] = first[i + 1] - first[i];
        const double gv = gradient(1, h, d) / (12 * step), ga = gradient(2, h, d) / (12 * step * step),
                     gj = gradient(3, h, d) / (2 * step * step * step);
        // The outputs are these differences over dt, dt^2 and dt^3.
        const double v = 7 * (first[1] + first[2]) - first[0] - first[3];
        const double a = 14 * second[1] - second[0] - second[2];
        const double j = second[2] - second[0];
        total -= (gv * v + 2 * ga * a + 3 * gj * j) / step;
        constexpr double kFirst[] = {1, -8, 0}, kSecond[] = {-1, 16, -30}, kThird[] = {-1, 2, 0};
        for (int64_t i = h; i < 3; ++i) by_ghost[i] += kFirst[i - h] * gv + kSecond[i - h] * ga + kThird[i - h] * gj;
      }
      for (int i = 0; i < 3; ++i) {
        const double t = static_cast<double>(i - 3) * step;
        total += by_ghost[i] * static_cast<double>(i - 3) * (v0 + t * a0 + t * t / 2 * j0);
      }
    }
    return total;
  }

 private:
  double dt(int64_t h) const { return dt_[h * dt_stride_]; }
  double start(int k, int64_t d) const { return start_[k] == nullptr ? 0.0 : static_cast<double>(start_[k][d]); }
  double gradient(int k, int64_t h, int64_t d) const {
    return gradient_[k] == nullptr ? 0.0 : static_cast<double>(gradient_[k][h * dof_ + d]);
  }

  // Gradient of the length of the step to row h > 0; must be called from the last row back. Computed joint by joint
  // into an array, which the compiler vectorizes, and then summed.
  template <ControlMap map>
  double row(int64_t h) {
    const double* const v = scratch_.output[1] + h * dof_;
    const double* const a = scratch_.output[2] + h * dof_;
    const double* const j = scratch_.output[3] + h * dof_;
    const Scalar* const gp = gradient_row(0, h);
    const Scalar* const gv = gradient_row(1, h);
    const Scalar* const ga = gradient_row(2, h);
    const Scalar* const gj = gradient_row(3, h);
    double* __restrict__ const first = scratch_.carried[0];
    double* __restrict__ const second = scratch_.carried[1];
    double* __restrict__ const third = scratch_.carried[2];
    double* __restrict__ const product = scratch_.carried[3];
    const double step = dt(h), rate = 1 / step, next = h + 1 < horizon_ ? dt(h + 1) : 0.0;
    for (int64_t d = 0; d < dof_; ++d) {
      if constexpr (map == ControlMap::kClique || map == ControlMap::kVelocity) {
        // Gradients of the differences before their division by the step; `first` and `second` hold those of row h + 1.
        const double of_jerk = static_cast<double>(gj[d]) * rate;
        const double of_acceleration = (static_cast<double>(ga[d]) + of_jerk - first[d]) * rate;
        double moved = 0.0;
        if constexpr (map == ControlMap::kClique) {
          moved = -(static_cast<double>(gv[d]) + of_acceleration - second[d]) * rate;
        } else {
          moved = third[d] += static_cast<double>(gp[d]);
        }
        product[d] = moved * v[d] - of_acceleration * a[d] - of_jerk * j[d];
        first[d] = of_jerk;
        second[d] = of_acceleration;
      } else {
        // Running sums of the gradients of position, velocity and acceleration, rows h to H - 1.
        double moved = first[d], gained = second[d], raised = third[d];
        if constexpr (map == ControlMap::kAccelerationSemiImplicitEuler) {
          moved += static_cast<double>(gp[d]);
          gained += static_cast<double>(gv[d]) + moved * step;
        } else {
          raised += static_cast<double>(ga[d]) + (moved * next / 2 + gained) * next;
          gained += static_cast<double>(gv[d]) + moved * next;
          moved += static_cast<double>(gp[d]);
        }
        const double by_jerk = map == ControlMap::kJerk ? raised : -static_cast<double>(gj[d]) * rate;
        product[d] = moved * v[d] + gained * a[d] + by_jerk * j[d];
        first[d] = moved;
        second[d] = gained;
        third[d] = raised;
      }
    }
    return std::accumulate(product, product + dof_, 0.0);
  }

  const Scalar* gradient_row(int k, int64_t h) const {
    return gradient_[k] == nullptr ? scratch_.zeros.data() : gradient_[k] + h * dof_;
  }

  int64_t dof_, horizon_;
  const Scalar* action_;
  const Scalar* start_[kStartRows];
  const Scalar* gradient_[kOutputs];
  const double* dt_;
  int64_t dt_stride_;
  Scratch<Scalar>& scratch_;
};

template <class Scalar>
void by_step(ControlMap map, Trajectory<Scalar>& trajectory, double* result) {
  switch (map) {
    case ControlMap::kClique:
      return trajectory.template by_step<ControlMap::kClique>(result);
    case ControlMap::kCliqueCentral:
      return static_cast<void>(*result = trajectory.central());
    case ControlMap::kAccelerationZoh:
      return trajectory.template by_step<ControlMap::kAccelerationZoh>(result);
    case ControlMap::kAccelerationSemiImplicitEuler:
      return trajectory.template by_step<ControlMap::kAccelerationSemiImplicitEuler>(result);
    case ControlMap::kVelocity:
      return trajectory.template by_step<ControlMap::kVelocity>(result);
    case ControlMap::kJerk:
      return trajectory.template by_step<ControlMap::kJerk>(result);
  }
}

}  // namespace

template <class Scalar>
void dt_gradient(const ForwardProblem<Scalar>& problem, int64_t batch, double* result, int threads) {
  const bool central = problem.map == ControlMap::kCliqueCentral;
  const int64_t steps = central ? 1 : problem.action_horizon;
  const bool each_step = problem.dt.step_stride != 0 && !central;
  const int64_t columns = each_step ? steps : 1;
  const bool each_trajectory = problem.dt.batch_stride != 0 || batch == 1;
  std::vector<double> rows(each_trajectory ? 0 : static_cast<size_t>(batch * columns));
  double* const into = each_trajectory ? result : rows.data();

  const int64_t grain = std::max<int64_t>(1, kGradientGrainElements / std::max<int64_t>(1, problem.action_horizon * problem.dof));
  parallel_for(0, batch, grain, threads, [&](int64_t begin, int64_t end) {
    Scratch<Scalar> scratch(output_horizon(problem.map, problem.action_horizon), problem.dof);
    std::vector<double> by_steps(static_cast<size_t>(steps));
    for (int64_t b = begin; b < end; ++b) {
      Trajectory<Scalar> trajectory(problem, b, scratch);
      by_step(problem.map, trajectory, by_steps.data());
      double* const row = into + b * columns;
      if (each_step) {
        std::copy(by_steps.begin(), by_steps.end(), row);
      } else {
        *row = 0.0;
        for (const double value : by_steps) *row += value;
      }
    }
  });
  if (each_trajectory) return;
  std::fill(result, result + columns, 0.0);
  for (int64_t b = 0; b < batch; ++b) {
    for (int64_t h = 0; h < columns; ++h) result[h] += rows[b * columns + h];
  }
}

template void dt_gradient(const ForwardProblem<float>&, int64_t, double*, int);
template void dt_gradient(const ForwardProblem<double>&, int64_t, double*, int);

}  // namespace traj_integrator
