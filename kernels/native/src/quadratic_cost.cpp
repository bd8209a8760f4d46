// Forward map, cost and vjp a few trajectories at a time, so that no trajectory leaves the caches.
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

void load(double* to, const Array& from, int64_t at, int64_t count) {
  if (!from.given()) {
    std::fill_n(to, count, 0.0);
  } else if (from.type == 'd') {
    std::memcpy(to, from.as<double>() + at, count * sizeof(double));
  } else {
    const float* source = from.as<float>() + at;
    for (int64_t i = 0; i < count; ++i) to[i] = static_cast<double>(source[i]);
  }
}

// One array for each trajectory, step and joint, or shared between them where a stride is 0; joints are neighbours.
struct CostArray {
  Array values;
  int64_t batch_stride = 0, row_stride = 0;

  bool given() const { return values.given(); }
  void expand(double* to, int64_t trajectory, int64_t horizon, int64_t dof) const {
    const int64_t first = trajectory * batch_stride;
    if (row_stride != 0) return load(to, values, first, horizon * dof);
    for (int64_t h = 0; h < horizon; ++h) load(to + h * dof, values, first, dof);
  }
};

// The cost of one output; arrays that are not given are 0, limits are given together with their weight.
struct GivenTerm {
  CostArray weight, target, terminal_weight;  // the last one is added to the weight in the last row
  CostArray limit_weight, lower, upper;

  bool is_per_trajectory() const {
    return weight.batch_stride != 0 || target.batch_stride != 0 || terminal_weight.batch_stride != 0;
  }
};

void expect_term(bool fits, const Array& given) {
  expect(fits && given.is_real(), Wrong::kValue, "terms: expected real numbers that fit trajectories, got shape ", given);
}

// A call whose arrays belong together.
struct CostProblem {
  explicit CostProblem(const CostCall& call)
      : call(call), action_horizon(call.map.action.shape[1]), horizon(call.map.rows(action_horizon)), batch(call.map.action.shape[0]),
        dof(call.map.action.shape[2]) {
    const Call& map = call.map;
    start = picked_rows("start", map.start, 0, batch, dof);
    goal = picked_rows("goal", map.goal, 0, batch, dof);
    for (const Array& rows : map.goal.rows) expect(map.has_goal || !rows.given(), Wrong::kValue, "goal: expected none");
    if (map.spline != nullptr) spline = map.spline->shape(action_horizon, dof, map.has_goal);
    dt = step_lengths(map, batch, action_horizon);
    for (int k = 0; k < kOutputs; ++k) terms[k] = term_of(call.terms[k]);
    expect(call.cost.is_real() && call.cost.has_shape({batch}), Wrong::kValue, "cost: expected [batch], got ", call.cost);
    const Array& gradient = call.grad_action;
    expect(!gradient.given() || (gradient.type == call.cost.type && gradient.has_shape({batch, action_horizon, dof})),
           Wrong::kValue, "gradient of the action: expected its shape and the cost's type, got ", gradient);
    for (int k = 0; k < kEnds; ++k) {
      const Array& of_end = call.grad_ends[k];
      expect(!of_end.given() || (of_end.type == 'd' && of_end.has_shape({batch, dof}) && (k < kStartRows || map.has_goal)),
             Wrong::kValue, "gradients of start and goal: expected float64 [batch, dof], got ", of_end);
    }
  }

  bool wants_gradient() const {
    return call.grad_action.given() || std::any_of(call.grad_ends, call.grad_ends + kEnds, [](const Array& a) { return a.given(); });
  }

  const CostCall& call;
  int64_t action_horizon, horizon, batch, dof;
  PickedRows start, goal;
  SplineShape spline{};
  StepLengths dt;
  GivenTerm terms[kOutputs];

 private:
  // [D], [H, D] or [B, H, D].
  CostArray rows_of(const Array& given) const {
    if (!given.given()) return {};
    const int dims = given.dims;
    const int64_t* const last = given.shape + dims;
    expect_term(dims >= 1 && dims <= 3 && last[-1] == dof && (dims < 2 || last[-2] == horizon) && (dims < 3 || last[-3] == batch),
                given);
    return {given, dims > 2 ? horizon * dof : 0, dims > 1 ? dof : 0};
  }
  // [D], or [B, D] if it may differ by trajectory.
  CostArray row_of(const Array& given, bool may_differ) const {
    if (!given.given()) return {};
    const bool differs = may_differ && given.has_shape({batch, dof});
    expect_term(differs || given.has_shape({dof}), given);
    return {given, differs ? dof : 0, 0};
  }
  GivenTerm term_of(const Array (&given)[CostCall::kTermFields]) const {
    const bool limits = given[3].given();
    expect(limits == given[4].given() && limits == given[5].given(), Wrong::kValue, "terms: expected both limits and a weight");
    return {rows_of(given[0]),       rows_of(given[1]),       row_of(given[2], true),
            row_of(given[3], false), row_of(given[4], false), row_of(given[5], false)};
  }
};

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
        array.expand(to, trajectory, horizon, dof);
        return to;
      };
      if (given.weight.given() || given.terminal_weight.given()) {
        double* const weight = take(given.weight);
        term.weight = weight;
        load(next, given.terminal_weight.values, trajectory * given.terminal_weight.batch_stride, dof);
        for (int64_t d = 0; d < dof; ++d) weight[size - dof + d] += next[d];
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
  const Call& map = problem.call.map;
  const int64_t dof = problem.dof, actions = problem.action_horizon * dof;
  load(tile.action, map.action, tile.begin * actions, tile.count * actions);
  ForwardProblem<double> part{map.map, problem.spline, problem.action_horizon, dof, tile.action};
  part.start_rows.count = part.goal_rows.count = tile.count;
  part.dt = dt_of(problem.dt, tile.begin);
  for (int k = 0; k < kStartRows; ++k) {
    double *const start = tile.end[k], *const goal = tile.end[kStartRows + k];
    for (int64_t b = 0; b < tile.count; ++b) {
      load(start + b * dof, map.start.rows[k], problem.start(tile.begin + b) * dof, dof);
      load(goal + b * dof, map.goal.rows[k], problem.goal(tile.begin + b) * dof, dof);
    }
    part.start[k] = start;
    part.goal[k] = goal;
    part.output[k] = tile.output[k];
  }
  loop<ForwardProblem<double>>()(part, 0, tile.count, tile.scratch);
}

void vjp(const CostProblem& problem, const Tile& tile, const Terms& terms) {
  VjpProblem<double> part{problem.call.map.map, problem.spline, problem.action_horizon, problem.dof};
  part.action = problem.call.grad_action.given() ? tile.action : nullptr;
  part.dt = dt_of(problem.dt, tile.begin);
  for (int k = 0; k < kOutputs; ++k) part.gradient[k] = terms.counts(k) ? tile.output[k] : nullptr;
  for (int k = 0; k < kEnds; ++k) {
    if (!problem.call.grad_ends[k].given()) continue;
    part.sum[k] = problem.call.grad_ends[k].as<double>() + tile.begin * problem.dof;
    part.wants_start = true;
  }
  loop<VjpProblem<double>>()(part, 0, tile.count, tile.scratch);
}

void set_zero(const Array& array) {
  if (array.given()) std::memset(array.data, 0, array.size() * (array.type == 'd' ? sizeof(double) : sizeof(float)));
}

template <class Scalar>
void run(const CostProblem& problem, int threads) {
  const int64_t dof = problem.dof, size = problem.horizon * dof, actions = problem.action_horizon * dof;
  const CostLoop cost_of = cost_loop();
  const bool wants = problem.wants_gradient();
  Scalar *const cost = problem.call.cost.as<Scalar>(), *const grad_action = problem.call.grad_action.as<Scalar>();
  Terms shared;
  thread_local std::vector<double> shared_memory;
  const int64_t term_size = Terms::size(problem);
  if (static_cast<int64_t>(shared_memory.size()) < term_size) shared_memory.resize(static_cast<size_t>(term_size));
  shared.fill(problem, 0, false, shared_memory.data());
  bool own = false, any = false;
  for (int k = 0; k < kOutputs; ++k) {
    own = own || problem.terms[k].is_per_trajectory();
    any = any || shared.counts(k) || problem.terms[k].is_per_trajectory();
  }
  if (!any) {
    set_zero(problem.call.cost);
    set_zero(problem.call.grad_action);
    for (const Array& gradient : problem.call.grad_ends) set_zero(gradient);
    return;
  }

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
      forward(problem, tile);
      for (int64_t b = 0; b < tile.count; ++b) {
        if (own) terms.fill(problem, begin + b, true, next);
        double* outputs[kOutputs];
        for (int k = 0; k < kOutputs; ++k) outputs[k] = tile.output[k] + b * size;
        cost[begin + b] = static_cast<Scalar>(cost_of(terms.data(), size, outputs));
      }
      if (!wants) continue;
      vjp(problem, tile, terms);
      if (grad_action == nullptr) continue;
      for (int64_t i = 0; i < tile.count * actions; ++i) grad_action[begin * actions + i] = static_cast<Scalar>(tile.action[i]);
    }
  });
}

}  // namespace

void quadratic_cost(const CostCall& call, int threads) {
  expect_action(call.map.action);
  const CostProblem problem(call);
  if (call.cost.type == 'd') {
    run<double>(problem, threads);
  } else {
    run<float>(problem, threads);
  }
}

}  // namespace traj_integrator
