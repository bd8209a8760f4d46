#include "cost_call.h"

#include "quadratic_cost.h"

namespace traj_integrator {
namespace {

RealArray real_array(const Array& array) { return {array.data, array.type == 'd'}; }

EndRows end_rows(const char* name, const EndArrays& end, const CostProblem& problem) {
  EndRows result;
  result.picked = picked_rows(name, end, 0, problem.batch, problem.dof);
  for (int k = 0; k < kStartRows; ++k) result.rows[k] = real_array(end.rows[k]);
  return result;
}

void expect_term(bool fits, const Array& given) {
  expect(fits && given.is_real(), Wrong::kValue, "terms: expected real numbers that fit trajectories, got shape ", given);
}

// [D], [H, D] or [B, H, D].
CostArray rows_of(const Array& given, const CostProblem& problem) {
  if (!given.given()) return {};
  const int dims = given.dims;
  const int64_t* const last = given.shape + dims;
  expect_term(dims >= 1 && dims <= 3 && last[-1] == problem.dof && (dims < 2 || last[-2] == problem.horizon) &&
                  (dims < 3 || last[-3] == problem.batch),
              given);
  return {real_array(given), dims > 2 ? problem.horizon * problem.dof : 0, dims > 1 ? problem.dof : 0};
}

// [D], or [B, D] if it may differ by trajectory.
CostArray row_of(const Array& given, const CostProblem& problem, bool may_differ) {
  if (!given.given()) return {};
  const bool differs = may_differ && given.has_shape({problem.batch, problem.dof});
  expect_term(differs || given.has_shape({problem.dof}), given);
  return {real_array(given), differs ? problem.dof : 0, 0};
}

GivenTerm term_of(const Array (&given)[CostCall::kTermFields], const CostProblem& problem) {
  const bool limits = given[3].given();
  expect(limits == given[4].given() && limits == given[5].given(), Wrong::kValue, "terms: expected both limits and a weight");
  return {rows_of(given[0], problem),       rows_of(given[1], problem),        row_of(given[2], problem, true),
          row_of(given[3], problem, false), row_of(given[4], problem, false), row_of(given[5], problem, false)};
}

}  // namespace

void quadratic_cost(const CostCall& call, int threads) {
  const Call& map = call.map;
  expect_action(map.action);
  CostProblem problem{};
  problem.map = map.map;
  problem.batch = map.action.shape[0];
  problem.action_horizon = map.action.shape[1];
  problem.dof = map.action.shape[2];
  problem.horizon = map.rows(problem.action_horizon);
  problem.action = real_array(map.action);
  problem.start = end_rows("start", map.start, problem);
  problem.goal = end_rows("goal", map.goal, problem);
  for (const Array& rows : map.goal.rows) expect(map.has_goal || !rows.given(), Wrong::kValue, "goal: expected none");
  if (map.spline != nullptr) problem.spline = map.spline->shape(problem.action_horizon, problem.dof, map.has_goal);
  problem.dt = step_lengths(map, problem.batch, problem.action_horizon);
  for (int k = 0; k < kOutputs; ++k) problem.terms[k] = term_of(call.terms[k], problem);
  expect(call.cost.is_real() && call.cost.has_shape({problem.batch}), Wrong::kValue, "cost: expected [batch], got ", call.cost);
  problem.is_double = call.cost.type == 'd';
  problem.cost = call.cost.data;
  if (call.grad_action.given()) {
    expect(call.grad_action.type == call.cost.type &&
               call.grad_action.has_shape({problem.batch, problem.action_horizon, problem.dof}),
           Wrong::kValue, "gradient of the action: expected its shape and the cost's type, got ", call.grad_action);
    problem.grad_action = call.grad_action.data;
  }
  for (int k = 0; k < kEnds; ++k) {
    const Array& gradient = call.grad_ends[k];
    if (!gradient.given()) continue;
    expect(gradient.type == 'd' && gradient.has_shape({problem.batch, problem.dof}) && (k < kStartRows || map.has_goal),
           Wrong::kValue, "gradients of start and goal: expected float64 [batch, dof], got ", gradient);
    problem.grad_end[k] = gradient.as<double>();
  }
  quadratic_cost(problem, threads);
}

}  // namespace traj_integrator
