// Gradient of the step lengths: the chain rule of `kernels/vjps.py`, one trajectory at a time, all in double.
#include "dt_gradient.h"

#include <algorithm>
#include <numeric>
#include <utility>
#include <vector>

#include "instruction_set.h"
#include "parallel.h"

namespace traj_integrator {
namespace {

constexpr int64_t kGradientGrainElements = 4096;  // elements below which a second thread costs more than it saves

// The memory that a thread needs for one trajectory: rows [H, D] of the outputs, action and start, and running sums from
// the last row back.
template <class Scalar>
struct Scratch {
  Scratch(const ForwardProblem<Scalar>& problem, int64_t rows)
      : dof(problem.dof),
        memory(static_cast<size_t>((4 * rows + problem.action_horizon + 8) * dof + scratch_size({}, dof))),
        zeros(static_cast<size_t>(dof)) {
    double* next = memory.data();
    const auto take = [&](int64_t count) { return std::exchange(next, next + count * dof); };
    for (int k = 0; k < 4; ++k) output[k] = take(rows), carried[k] = take(1), start[k] = take(1);
    action = take(problem.action_horizon);
    loops = next;
  }

  int64_t dof;
  std::vector<double> memory;
  std::vector<Scalar> zeros;  // [D], stands for a row of an absent gradient
  double* output[4];   // position, velocity, acceleration, jerk
  double* carried[4];  // [D] each
  double* start[4];    // [D] each
  double* action;
  double* loops;
};

// One trajectory of the problem.
template <class Scalar>
class Trajectory {
 public:
  Trajectory(const ForwardProblem<Scalar>& problem, int64_t b, Scratch<Scalar>& scratch)
      : dof_(problem.dof),
        horizon_(output_horizon(problem.map, problem.action_horizon)),
        dt_(problem.dt.data + b * problem.dt.batch_stride),
        dt_stride_(problem.dt.step_stride),
        scratch_(scratch) {
    const int64_t size = problem.action_horizon * dof_;
    std::copy_n(problem.action + b * size, size, scratch.action);
    ForwardProblem<double> motion{problem.map, {}, problem.action_horizon, dof_, scratch.action};
    motion.dt = {dt_, 0, dt_stride_};
    for (int k = 0; k < kOutputs; ++k) {
      gradient_[k] = problem.output[k] == nullptr ? nullptr : problem.output[k] + b * horizon_ * dof_;
      const Scalar* const pool = problem.start[k];
      std::copy_n(pool == nullptr ? scratch.zeros.data() : pool + problem.start_rows(b) * dof_, dof_, scratch.start[k]);
      std::fill_n(scratch.carried[k], dof_, 0.0);
      motion.start[k] = scratch.start[k];
      motion.output[k] = scratch.output[k];
    }
    loop<ForwardProblem<double>>()(motion, 0, 1, scratch.loops);
  }

  // Rows 0 to Ha - 1 of the gradient.
  template <ControlMap map>
  void by_step(double* result) {
    for (int64_t h = horizon_ - 1; h > 0; --h) result[h] = row<map>(h);
    result[0] = 0.0;
    if constexpr (map == ControlMap::kClique) {
      for (int64_t d = 0; d < dof_; ++d) result[0] += scratch_.carried[1][d] * scratch_.start[2][d] / 2;
    }
  }

  // The one element that a central difference has: the outputs are differences over dt, dt^2 and dt^3.
  double central() {
    const double step = dt(0);
    double total = 0.0;
    for (int64_t d = 0; d < dof_; ++d) {
      double by_ghost[3] = {0.0, 0.0, gradient(0, 0, d)};
      for (int64_t h = 0, i = d; h < horizon_; ++h, i += dof_) {
        const double gv = gradient(1, h, d), ga = gradient(2, h, d), gj = gradient(3, h, d);
        total -= (gv * scratch_.output[1][i] + 2 * ga * scratch_.output[2][i] + 3 * gj * scratch_.output[3][i]) / step;
        constexpr double kFirst[] = {1, -8, 0}, kSecond[] = {-1, 16, -30}, kThird[] = {-6, 12, 0};
        for (int64_t k = h; k < 3; ++k) {
          by_ghost[k] += (kFirst[k - h] * gv + (kSecond[k - h] * ga + kThird[k - h] * gj / step) / step) / (12 * step);
        }
      }
      const auto start = [&](int k) { return scratch_.start[k][d]; };
      for (int k = 0; k < 3; ++k) {
        const double t = static_cast<double>(k - 3) * step;
        total += by_ghost[k] * static_cast<double>(k - 3) * (start(1) + t * start(2) + t * t / 2 * start(3));
      }
    }
    return total;
  }

 private:
  double dt(int64_t h) const { return dt_[h * dt_stride_]; }
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
    Scratch<Scalar> scratch(problem, output_horizon(problem.map, problem.action_horizon));
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
