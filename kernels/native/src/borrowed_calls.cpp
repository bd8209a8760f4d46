#include "borrowed_calls.h"

#include <torch/csrc/Exceptions.h>

#include <array>

#include "borrowed_array.h"
#include "compute.h"
#include "interpreter_lock.h"

namespace traj_integrator {
namespace {

constexpr size_t kGivenRows = 3;  // position, velocity, acceleration

// The number of rows that the given arrays have in common; -1 if they differ, 1 if there are none.
int64_t common_rows(const std::array<BorrowedArray, kGivenRows>& arrays, char type, int64_t dof) {
  int64_t rows = -1;
  for (const BorrowedArray& array : arrays) {
    if (!array.present()) continue;
    if (array.dims() != 2 || array.type() != type || array.size(1) != dof) return -1;
    if (rows >= 0 && rows != array.size(0)) return -1;
    rows = array.size(0);
  }
  return rows < 0 ? 1 : rows;
}

template <class Scalar>
void step_borrowed(ControlMap map, const BorrowedArray& action, const std::array<BorrowedArray, kGivenRows>& start,
                   int64_t rows, const StartIndex& index, const StepLengths& steps, const BorrowedArray& out) {
  ForwardProblem<Scalar> problem{};
  problem.map = map;
  const int64_t batch = action.size(0);
  problem.action_horizon = action.size(1);
  problem.dof = action.size(2);
  problem.action = action.data<Scalar>();
  problem.start_index = index;
  problem.dt = steps;
  for (size_t k = 0; k < kGivenRows; ++k) {
    problem.start[k] = start[k].data<Scalar>();
    problem.start_stride[k] = rows == 1 ? 0 : problem.dof;
  }
  const int64_t size = batch * output_horizon(map, problem.action_horizon) * problem.dof;
  for (int k = 0; k < kOutputs; ++k) problem.output[k] = out.data<Scalar>() + k * size;
  without_interpreter_lock(size, [&] { compute(problem, batch); });
}

template <class Scalar>
void vjp_borrowed(ControlMap map, const std::array<BorrowedArray, kOutputs>& upstream, int64_t rows,
                  const StartIndex& index, const StepLengths& steps, bool truncate, const BorrowedArray& action,
                  const std::array<BorrowedArray, kGivenRows>& start) {
  VjpProblem<Scalar> problem{};
  problem.map = map;
  const int64_t batch = action.size(0);
  problem.action_horizon = action.size(1);
  problem.dof = action.size(2);
  problem.dt = steps;
  problem.truncate_terminal = truncate;
  problem.action = action.data<Scalar>();
  for (int k = 0; k < kOutputs; ++k) problem.gradient[k] = upstream[k].data<Scalar>();
  StartGradients<Scalar> gradients{};
  gradients.index = index;
  for (size_t k = 0; k < kGivenRows; ++k) {
    gradients.data[k] = start[k].data<Scalar>();
    gradients.rows[k] = rows;
  }
  without_interpreter_lock(batch * problem.action_horizon * problem.dof, [&] { compute(problem, batch, gradients); });
}

}  // namespace

PyObject* step_into(PyObject*, PyObject* const* args, Py_ssize_t count) {
  HANDLE_TH_ERRORS
  if (count != 8) Py_RETURN_FALSE;
  const auto map = static_cast<ControlMap>(PyLong_AsLongLong(args[0]));
  BorrowedArray action, index, dt, out;
  std::array<BorrowedArray, kGivenRows> start;
  if (!action.take(args[1]) || !index.take(args[5]) || !dt.take(args[6]) || !out.take(args[7], true)) Py_RETURN_FALSE;
  for (size_t k = 0; k < kGivenRows; ++k) {
    if (!start[k].take(args[2 + k])) Py_RETURN_FALSE;
  }
  if (!action.present() || action.dims() != 3 || !is_real(action.type()) || action.size(1) < 1) Py_RETURN_FALSE;
  const int64_t batch = action.size(0), horizon = action.size(1), dof = action.size(2);
  if (!out.present() || out.type() != action.type() || out.dims() != 4 || out.size(0) != kOutputs ||
      out.size(1) != batch || out.size(2) != output_horizon(map, horizon) || out.size(3) != dof) {
    Py_RETURN_FALSE;
  }
  const int64_t rows = common_rows(start, action.type(), dof);
  StartIndex picked;
  StepLengths steps;
  if (rows < 1 || !take_index(index, batch, rows, picked) || !take_steps(dt, batch, horizon, steps)) Py_RETURN_FALSE;
  if (row_of(map).one_dt && steps.step_stride != 0) Py_RETURN_FALSE;
  if (action.type() == 'f') {
    step_borrowed<float>(map, action, start, rows, picked, steps, out);
  } else {
    step_borrowed<double>(map, action, start, rows, picked, steps, out);
  }
  Py_RETURN_TRUE;
  END_HANDLE_TH_ERRORS
}

PyObject* vjp_into(PyObject*, PyObject* const* args, Py_ssize_t count) {
  HANDLE_TH_ERRORS
  if (count != 12) Py_RETURN_FALSE;
  const auto map = static_cast<ControlMap>(PyLong_AsLongLong(args[0]));
  BorrowedArray index, dt, action;
  std::array<BorrowedArray, kOutputs> upstream;
  std::array<BorrowedArray, kGivenRows> start;
  if (!index.take(args[5]) || !dt.take(args[6]) || !action.take(args[8], true)) Py_RETURN_FALSE;
  for (int k = 0; k < kOutputs; ++k) {
    if (!upstream[k].take(args[1 + k])) Py_RETURN_FALSE;
  }
  for (size_t k = 0; k < kGivenRows; ++k) {
    if (!start[k].take(args[9 + k], true)) Py_RETURN_FALSE;
  }
  if (!action.present() || action.dims() != 3 || !is_real(action.type()) || action.size(1) < 1) Py_RETURN_FALSE;
  const int64_t batch = action.size(0), horizon = action.size(1), dof = action.size(2);
  bool any = false;
  for (const BorrowedArray& gradient : upstream) {
    if (!gradient.present()) continue;
    any = true;
    if (gradient.type() != action.type() || !gradient.has_shape(batch, output_horizon(map, horizon), dof)) {
      Py_RETURN_FALSE;
    }
  }
  const int64_t rows = common_rows(start, action.type(), dof);
  StartIndex picked;
  StepLengths steps;
  if (!any || rows < 1 || !take_index(index, batch, rows, picked)) Py_RETURN_FALSE;
  if (!take_steps(dt, batch, horizon, steps)) Py_RETURN_FALSE;
  if (row_of(map).one_dt && steps.step_stride != 0) Py_RETURN_FALSE;
  if (action.type() == 'f') {
    vjp_borrowed<float>(map, upstream, rows, picked, steps, args[7] == Py_True, action, start);
  } else {
    vjp_borrowed<double>(map, upstream, rows, picked, steps, args[7] == Py_True, action, start);
  }
  Py_RETURN_TRUE;
  END_HANDLE_TH_ERRORS
}

}  // namespace traj_integrator
