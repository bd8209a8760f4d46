#include "cost_call.h"

#include <torch/csrc/Exceptions.h>

#include <array>

#include "borrowed_array.h"
#include "bspline_launch.h"
#include "interpreter_lock.h"
#include "quadratic_cost.h"

namespace traj_integrator {
namespace {

constexpr size_t kTermFields = 6;

template <size_t N>
bool take_all(PyObject* tuple, std::array<BorrowedArray, N>& arrays, size_t first, bool writable = false) {
  if (!PyTuple_CheckExact(tuple) || PyTuple_GET_SIZE(tuple) < static_cast<Py_ssize_t>(first + N)) return false;
  for (size_t k = 0; k < N; ++k) {
    if (!arrays[k].take(PyTuple_GET_ITEM(tuple, static_cast<Py_ssize_t>(first + k)), writable)) return false;
  }
  return true;
}

RealArray real_array(const BorrowedArray& array) {
  if (!array.present()) return {};
  return {array.data<void>(), array.type() == 'd'};
}

// The rows of start or goal; `any` tells whether any are given.
bool take_end(const std::array<BorrowedArray, kStartRows>& given, const BorrowedArray& index, int64_t batch, int64_t dof,
              EndRows& end, bool& any) {
  any = false;
  for (size_t k = 0; k < given.size(); ++k) {
    if (!given[k].present()) continue;
    if (given[k].dims() != 2 || !is_real(given[k].type()) || given[k].size(1) != dof) return false;
    if (any && given[k].size(0) != end.count) return false;
    end.count = given[k].size(0);
    end.rows[k] = real_array(given[k]);
    any = true;
  }
  return (index.present() && !any) || take_index(index, batch, end.count, end.index);
}

// [D], [H, D] or [B, H, D].
bool take_rows(const BorrowedArray& given, const CostProblem& problem, CostArray& taken) {
  if (!given.present()) return true;
  if (!is_real(given.type())) return false;
  const int dims = given.dims();
  if (dims < 1 || dims > 3 || given.size(dims - 1) != problem.dof) return false;
  if (dims > 1 && given.size(dims - 2) != problem.horizon) return false;
  if (dims > 2 && given.size(0) != problem.batch) return false;
  taken = {real_array(given), dims > 2 ? problem.horizon * problem.dof : 0, dims > 1 ? problem.dof : 0};
  return true;
}

// [D], or [B, D] if it may differ by trajectory.
bool take_row(const BorrowedArray& given, const CostProblem& problem, bool may_differ, CostArray& taken) {
  if (!given.present()) return true;
  const int dims = given.dims();
  if (!is_real(given.type()) || dims < 1 || dims > (may_differ ? 2 : 1) || given.size(dims - 1) != problem.dof) {
    return false;
  }
  if (dims == 2 && given.size(0) != problem.batch) return false;
  taken = {real_array(given), dims == 2 ? problem.dof : 0, 0};
  return true;
}

bool take_term(const std::array<BorrowedArray, kTermFields>& given, const CostProblem& problem, GivenTerm& term) {
  const bool limits = given[3].present();
  if (limits != given[4].present() || limits != given[5].present()) return false;
  return take_rows(given[0], problem, term.weight) && take_rows(given[1], problem, term.target) &&
         take_row(given[2], problem, true, term.terminal_weight) &&
         take_row(given[3], problem, false, term.limit_weight) && take_row(given[4], problem, false, term.lower) &&
         take_row(given[5], problem, false, term.upper);
}

}  // namespace

PyObject* quadratic_cost_into(PyObject*, PyObject* const* args, Py_ssize_t count) {
  HANDLE_TH_ERRORS
  if (count != 11) Py_RETURN_FALSE;
  BorrowedArray action, start_index, goal_index, dt, cost, grad_action;
  std::array<BorrowedArray, kStartRows> start, goal;
  std::array<std::array<BorrowedArray, kTermFields>, kOutputs> terms;
  std::array<BorrowedArray, kEnds> grad_ends;
  if (!take_all(args[1], start, 0) || !start_index.take(args[2]) || !take_all(args[3], goal, 0) ||
      !goal_index.take(args[4]) || !action.take(args[5]) || !dt.take(args[6]) || !cost.take(args[8], true) ||
      !grad_action.take(args[9], true) || !take_all(args[10], grad_ends, 0, true)) {
    Py_RETURN_FALSE;
  }
  for (size_t k = 0; k < terms.size(); ++k) {
    if (!take_all(args[7], terms[k], k * kTermFields)) Py_RETURN_FALSE;
  }
  if (!action.present() || action.dims() != 3 || !is_real(action.type()) || action.size(1) < 1) Py_RETURN_FALSE;

  CostProblem problem{};
  problem.is_spline = !PyLong_CheckExact(args[0]);
  problem.batch = action.size(0);
  problem.action_horizon = action.size(1);
  problem.dof = action.size(2);
  problem.action = real_array(action);
  bool has_start = false, has_goal = false;
  if (!take_end(start, start_index, problem.batch, problem.dof, problem.start, has_start) ||
      !take_end(goal, goal_index, problem.batch, problem.dof, problem.goal, has_goal)) {
    Py_RETURN_FALSE;
  }
  SplineForm form;
  if (problem.is_spline) {
    form = pybind11::handle(args[0]).cast<SplineForm>();
    problem.spline = shape_of(form, problem.action_horizon, problem.dof, has_goal, nullptr, 0);
    problem.horizon = problem.spline.rows();
  } else {
    if (has_goal) Py_RETURN_FALSE;
    problem.map = static_cast<ControlMap>(PyLong_AsLongLong(args[0]));
    problem.horizon = output_horizon(problem.map, problem.action_horizon);
  }
  if (!take_steps(dt, problem.batch, problem.action_horizon, problem.dt)) Py_RETURN_FALSE;
  if (problem.dt.step_stride != 0 && (problem.is_spline || row_of(problem.map).one_dt)) Py_RETURN_FALSE;
  for (size_t k = 0; k < terms.size(); ++k) {
    if (!take_term(terms[k], problem, problem.terms[k])) Py_RETURN_FALSE;
  }
  if (!cost.present() || !is_real(cost.type()) || cost.dims() != 1 || cost.size(0) != problem.batch) Py_RETURN_FALSE;
  problem.is_double = cost.type() == 'd';
  problem.cost = cost.data<void>();
  if (grad_action.present()) {
    if (grad_action.type() != cost.type() ||
        !grad_action.has_shape(problem.batch, problem.action_horizon, problem.dof)) {
      Py_RETURN_FALSE;
    }
    problem.grad_action = grad_action.data<void>();
  }
  for (size_t k = 0; k < grad_ends.size(); ++k) {
    if (!grad_ends[k].present()) continue;
    if (grad_ends[k].type() != 'd' || !grad_ends[k].has_shape(problem.batch, problem.dof)) Py_RETURN_FALSE;
    if (k >= kStartRows && !has_goal) Py_RETURN_FALSE;
    problem.grad_end[k] = grad_ends[k].data<double>();
  }
  without_interpreter_lock(problem.batch * problem.horizon * problem.dof, [&] { quadratic_cost(problem); });
  Py_RETURN_TRUE;
  END_HANDLE_TH_ERRORS
}

}  // namespace traj_integrator
