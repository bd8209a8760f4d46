#include "quadratic_cost.h"

#include <algorithm>
#include <vector>

#include "instruction_set.h"
#include "parallel.h"

namespace traj_integrator {
namespace {

// Elements below which a second thread costs more than it saves.
constexpr int64_t kCostGrainElements = 8192;
// Number of doubles of one output that are processed at a time: four outputs, actions and gradients stay in the inner
// caches.
constexpr int64_t kTileElements = 1024;

constexpr int kTermArrays = 5;  // of a CostTerm

void load(double* to, const RealArray& from, int64_t at, int64_t count) {
  if (from.data == nullptr) {
    std::fill_n(to, count, 0.0);
  } else if (from.is_double) {
    std::memcpy(to, static_cast<const double*>(from.data) + at, count * sizeof(double));
  } else {
    const float* source = static_cast<const float*>(from.data) + at;
    for (int64_t i = 0; i < count; ++i) to[i] = static_cast<double>(source[i]);
  }
}

void expand(double* to, const CostArray& from, int64_t trajectory, int64_t horizon, int64_t dof) {
  const int64_t first = trajectory * from.batch_stride;
  if (from.row_stride != 0) return load(to, from.values, first, horizon * dof);
  for (int64_t h = 0; h < horizon; ++h) load(to + h * dof, from.values, first, dof);
}

// The terms as the loops read them, for one trajectory.
class Terms {
 public:
  static int64_t size(const CostProblem& problem) { return kOutputs * kTermArrays * problem.horizon * problem.dof; }

  // Fills in the terms that differ by trajectory, or the others.
  void fill(const CostProblem& problem, int64_t trajectory, bool per_trajectory, double* memory) {
    const int64_t horizon = problem.horizon, dof = problem.dof, size = horizon * dof;
    for (int k = 0; k < kOutputs; ++k, memory += kTermArrays * size) {
      const GivenTerm& given = problem.terms[k];
      if (given.is_per_trajectory() != per_trajectory) continue;
      CostTerm& term = terms_[k];
      double* next = memory;
      const auto take = [&](const CostArray& array) {
        double* const to = next;
        next += size;
        expand(to, array, trajectory, horizon, dof);
        return to;
      };
      if (given.weight.given() || given.terminal_weight.given()) {
        double* const weight = take(given.weight);
        term.weight = weight;
        if (given.terminal_weight.given()) {
          const int64_t first = trajectory * given.terminal_weight.batch_stride;
          for (int64_t d = 0; d < dof; ++d) weight[size - dof + d] += given.terminal_weight.values.at(first + d);
        }
        if (given.target.given()) term.target = take(given.target);
      }
      if (given.limit_weight.given()) {
        term.limit_weight = take(given.limit_weight);
        term.lower = take(given.lower);
        term.upper = take(given.upper);
      }
    }
  }

  const CostTerm* data() const { return terms_; }
  bool counts(int k) const { return terms_[k].counts(); }

 private:
  CostTerm terms_[kOutputs] = {};
};

// A few trajectories: their inputs and results as doubles.
struct Tile {
  int64_t begin;
  int64_t count;
  double* action;            // [count, Ha, D]
  double* end[kEnds];        // [count, D] each
  double* output[kOutputs];  // [count, H, D] each
  double* scratch;
};

StepLengths dt_of(const StepLengths& dt, int64_t begin) {
  return {dt.data + begin * dt.batch_stride, dt.batch_stride, dt.step_stride};
}

void forward(const CostProblem& problem, const Tile& tile) {
  ForwardProblem<double> part{problem.map, problem.spline, problem.action_horizon, problem.dof, tile.action};
  part.start_rows.count = part.goal_rows.count = tile.count;
  part.dt = dt_of(problem.dt, tile.begin);
  for (int k = 0; k < kStartRows; ++k) {
    part.start[k] = tile.end[k];
    part.goal[k] = tile.end[kStartRows + k];
    part.output[k] = tile.output[k];
  }
  loop<ForwardProblem<double>>()(part, 0, tile.count, tile.scratch);
}

void vjp(const CostProblem& problem, const Tile& tile, const Terms& terms) {
  VjpProblem<double> part{problem.map, problem.spline, problem.action_horizon, problem.dof};
  part.action = problem.grad_action == nullptr ? nullptr : tile.action;
  part.dt = dt_of(problem.dt, tile.begin);
  for (int k = 0; k < kOutputs; ++k) part.gradient[k] = terms.counts(k) ? tile.output[k] : nullptr;
  for (int k = 0; k < kEnds; ++k) {
    if (problem.grad_end[k] == nullptr) continue;
    part.sum[k] = problem.grad_end[k] + tile.begin * problem.dof;
    part.wants_start = true;
  }
  loop<VjpProblem<double>>()(part, 0, tile.count, tile.scratch);
}

void load_ends(const CostProblem& problem, const Tile& tile) {
  for (int k = 0; k < kEnds; ++k) {
    const EndRows& end = k < kStartRows ? problem.start : problem.goal;
    const RealArray& rows = end.rows[k % kStartRows];
    for (int64_t b = 0; b < tile.count; ++b) {
      load(tile.end[k] + b * problem.dof, rows, end.picked(tile.begin + b) * problem.dof, problem.dof);
    }
  }
}

template <class Scalar>
void zero_results(const CostProblem& problem) {
  std::fill_n(static_cast<Scalar*>(problem.cost), problem.batch, Scalar(0));
  const int64_t dof = problem.dof;
  if (problem.grad_action != nullptr) {
    std::fill_n(static_cast<Scalar*>(problem.grad_action), problem.batch * problem.action_horizon * dof, Scalar(0));
  }
  for (double* gradient : problem.grad_end) {
    if (gradient != nullptr) std::fill_n(gradient, problem.batch * dof, 0.0);
  }
}

template <class Scalar>
void run(const CostProblem& problem, int threads) {
  const int64_t dof = problem.dof, size = problem.horizon * dof, actions = problem.action_horizon * dof;
  const CostLoop cost_of = cost_loop();
  Terms shared;
  thread_local std::vector<double> shared_memory;
  const int64_t term_size = Terms::size(problem);
  if (static_cast<int64_t>(shared_memory.size()) < term_size) shared_memory.resize(static_cast<size_t>(term_size));
  shared.fill(problem, 0, false, shared_memory.data());
  bool own = false, any = false, wants = problem.grad_action != nullptr;
  for (int k = 0; k < kOutputs; ++k) {
    own = own || problem.terms[k].is_per_trajectory();
    any = any || shared.counts(k) || problem.terms[k].is_per_trajectory();
  }
  for (const double* gradient : problem.grad_end) wants = wants || gradient != nullptr;
  if (!any) return zero_results<Scalar>(problem);

  const int64_t most = std::max<int64_t>(1, kTileElements / std::max<int64_t>(1, size));
  const int64_t grain = std::max<int64_t>(1, kCostGrainElements / std::max<int64_t>(1, size));
  parallel_for(0, problem.batch, grain, threads, [&](int64_t first, int64_t last) {
    thread_local std::vector<double> memory;
    const int64_t scratch = scratch_size(problem.spline, dof);
    const int64_t needed = most * (actions + kOutputs * size + kEnds * dof) + scratch + (own ? term_size : 0);
    if (static_cast<int64_t>(memory.size()) < needed) memory.resize(static_cast<size_t>(needed));
    Terms terms = shared;
    for (int64_t begin = first; begin < last; begin += most) {
      Tile tile{};
      tile.begin = begin;
      tile.count = std::min(most, last - begin);
      double* next = memory.data();
      const auto take = [&](int64_t elements) {
        double* const to = next;
        next += elements;
        return to;
      };
      tile.action = take(most * actions);
      for (double*& rows : tile.end) rows = take(most * dof);
      for (double*& rows : tile.output) rows = take(most * size);
      tile.scratch = take(scratch);
      load(tile.action, problem.action, begin * actions, tile.count * actions);
      load_ends(problem, tile);
      forward(problem, tile);
      for (int64_t b = 0; b < tile.count; ++b) {
        if (own) terms.fill(problem, begin + b, true, next);
        double* outputs[kOutputs];
        for (int k = 0; k < kOutputs; ++k) outputs[k] = tile.output[k] + b * size;
        static_cast<Scalar*>(problem.cost)[begin + b] = static_cast<Scalar>(cost_of(terms.data(), size, outputs));
      }
      if (!wants) continue;
      vjp(problem, tile, terms);
      if (problem.grad_action == nullptr) continue;
      Scalar* const gradient = static_cast<Scalar*>(problem.grad_action) + begin * actions;
      for (int64_t i = 0; i < tile.count * actions; ++i) gradient[i] = static_cast<Scalar>(tile.action[i]);
    }
  });
}

}  // namespace

void quadratic_cost(const CostProblem& problem, int threads) {
  if (problem.is_double) {
    run<double>(problem, threads);
  } else {
    run<float>(problem, threads);
  }
}

}  // namespace traj_integrator
