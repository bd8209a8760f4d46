// The drop-in kernels in one call: results are written straight into the caller's buffers.
#include <ATen/EmptyTensor.h>
#include <c10/core/InferenceMode.h>
#include <torch/csrc/Exceptions.h>

#include <algorithm>
#include <cmath>

#include "autograd.h"
#include "interpreter_lock.h"
#include "problem.h"
#include "python_arguments.h"

namespace traj_integrator {
namespace {

using at::Tensor;

// Plain memory for results like `action`, of `horizon` rows.
bool is_buffer(const Tensor& buffer, const Tensor& action, int64_t horizon) {
  if (!buffer.defined() || buffer.scalar_type() != action.scalar_type() || !buffer.is_contiguous()) return false;
  if (buffer.dim() != 3 || buffer.size(0) != action.size(0) || buffer.size(1) != horizon) return false;
  if (buffer.size(2) != action.size(2) || buffer.is_inference()) return false;
  return !(buffer.is_view() ? buffer._base() : buffer).requires_grad();
}

bool is_apart(const Tensor& buffer, const Tensor& other) { return !other.defined() || !share_memory(buffer, other); }

// Whether no buffer overlaps another buffer or an input.
bool are_apart(const Outputs& buffers, const StepArguments& arguments) {
  for (size_t k = 0; k < buffers.size(); ++k) {
    bool apart = is_apart(buffers[k], arguments.action) && is_apart(buffers[k], arguments.start_index);
    for (const Tensor& rows : arguments.start) apart = apart && is_apart(buffers[k], rows);
    for (size_t other = 0; other < k; ++other) apart = apart && is_apart(buffers[k], buffers[other]);
    if (!apart) return false;
  }
  return true;
}

template <class Scalar>
void fill_seconds(double* seconds, const Tensor& traj_dt, bool is_reciprocal) {
  const Tensor values = traj_dt.contiguous();
  const Scalar* from = values.const_data_ptr<Scalar>();
  for (int64_t i = 0; i < values.numel(); ++i) {
    seconds[i] = is_reciprocal ? 1 / static_cast<double>(from[i]) : static_cast<double>(from[i]);
  }
}

// Step lengths, s, [1 or B, 1 or Ha] in float64; undefined if `traj_dt` does not fit.
Tensor seconds_of(PyObject* object, bool is_reciprocal, ControlMap map, int64_t horizon) {
  const bool one_dt = row_of(map).one_dt;
  const auto empty = [](int64_t rows, int64_t columns) {
    return Tensor(at::detail::empty_cpu({rows, columns}, at::kDouble, false, std::nullopt));
  };
  if (PyFloat_CheckExact(object)) {
    const double value = PyFloat_AS_DOUBLE(object), seconds = is_reciprocal ? 1 / value : value;
    if (!(seconds > 0 && std::isfinite(seconds))) return {};
    Tensor dt = empty(1, 1);
    *dt.mutable_data_ptr<double>() = seconds;
    return dt;
  }
  Tensor traj_dt;
  if (object == Py_None || !unpack(object, traj_dt) || traj_dt.requires_grad() || traj_dt.dim() > 2) return {};
  const at::ScalarType dtype = traj_dt.scalar_type();
  if (dtype != at::kFloat && dtype != at::kDouble) return {};
  Tensor dt = traj_dt.dim() == 2 ? empty(traj_dt.size(0), traj_dt.size(1)) : empty(1, traj_dt.numel());
  double* const seconds = dt.mutable_data_ptr<double>();
  if (dtype == at::kFloat) {
    fill_seconds<float>(seconds, traj_dt, is_reciprocal);
  } else {
    fill_seconds<double>(seconds, traj_dt, is_reciprocal);
  }
  if (!one_dt || dt.size(1) == 1) return dt;
  if (dt.size(1) != horizon && dt.size(1) != output_horizon(map, horizon)) return {};
  const auto is_first = [&](double value) { return value == *seconds; };
  const bool uniform = dt.size(0) == 1 && std::all_of(seconds, seconds + dt.numel(), is_first);
  return uniform ? dt.narrow(1, 0, 1) : Tensor();
}

}  // namespace

// step_with_buffers(map, is_reciprocal, u_act, p0, v0, a0, start_index, traj_dt, out_position, out_velocity,
//                   out_acceleration, out_jerk, out_grad_position) -> Trajectory | None
//
// Returns None, having written nothing, if anything is out of the ordinary: then the operator computes it, or raises.
PyObject* step_with_buffers(PyObject*, PyObject* const* args, Py_ssize_t count) {
  HANDLE_TH_ERRORS
  if (count != 13 || !no_mode_is_active() || c10::InferenceMode::is_enabled()) Py_RETURN_NONE;
  StepArguments arguments{};
  arguments.map = static_cast<ControlMap>(PyLong_AsLongLong(args[0]));
  Tensor& action = arguments.action;
  auto& start = arguments.start;
  if (!unpack(args[2], action) || !unpack(args[6], arguments.start_index)) Py_RETURN_NONE;
  for (size_t k = 0; k < 3; ++k) {
    if (!unpack(args[3 + k], start[k])) Py_RETURN_NONE;
  }
  if (!action.defined() || action.dim() != 3 || action.size(1) < 1 || !start[0].defined()) Py_RETURN_NONE;
  if (action.scalar_type() != at::kFloat && action.scalar_type() != at::kDouble) Py_RETURN_NONE;
  for (const Tensor& rows : start) {
    if (rows.defined() && (rows.dim() != 2 || rows.size(0) != start[0].size(0))) Py_RETURN_NONE;
  }
  arguments.dt = seconds_of(args[7], args[1] == Py_True, arguments.map, action.size(1));
  if (!arguments.dt.defined()) Py_RETURN_NONE;

  CallerBuffers buffers;
  for (size_t k = 0; k < 4; ++k) {
    if (!unpack(args[8 + k], buffers.output[k])) Py_RETURN_NONE;
    if (!is_buffer(buffers.output[k], action, output_horizon(arguments.map, action.size(1)))) Py_RETURN_NONE;
    // A view returned by an earlier call and passed in again has a graph, which is dropped here.
    if (buffers.output[k].requires_grad()) buffers.output[k] = buffers.output[k].detach();
  }
  if (!are_apart(buffers.output, arguments) || !unpack(args[12], buffers.gradient)) Py_RETURN_NONE;
  if (buffers.gradient.defined() && !is_buffer(buffers.gradient, action, action.size(1))) Py_RETURN_NONE;
  Outputs outputs;
  try {
    without_interpreter_lock(action.numel(), [&] { outputs = differentiable_step(arguments, &buffers); });
  } catch (const c10::Error&) {
    Py_RETURN_NONE;
  }
  return wrap_trajectory(std::move(outputs));
  END_HANDLE_TH_ERRORS
}

}  // namespace traj_integrator
