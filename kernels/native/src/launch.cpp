#include "launch.h"

#include <ATen/ops/empty.h>
#include <c10/util/Exception.h>

#include <limits>
#include <type_traits>
#include <utility>

#include "compute.h"
#include "dt_gradient.h"
#include "kept_memory.h"
#include "optional_tensors.h"
#include "problem.h"

namespace traj_integrator {
namespace {

at::Tensor empty(at::IntArrayRef shape, const at::Tensor& like) { return new_result(shape, like.scalar_type()); }

at::Tensor contiguous_double(const at::Tensor& dt, int64_t batch, int64_t horizon) {
  TORCH_CHECK_VALUE(dt.dim() == 2 && (dt.size(0) == 1 || dt.size(0) == batch) &&
                        (dt.size(1) == 1 || dt.size(1) == horizon),
                    "dt: expected shape [1 or ", batch, ", 1 or ", horizon, "], got ", dt.sizes());
  const at::Tensor steps = dt.contiguous();
  return steps.scalar_type() == at::kDouble ? steps : steps.to(at::kDouble);
}

StepLengths step_lengths(const at::Tensor& dt) {
  return {dt.const_data_ptr<double>(), dt.size(0) == 1 ? 0 : dt.size(1), dt.size(1) == 1 ? 0 : 1};
}

template <class Index>
void check_rows(const at::Tensor& index, int64_t rows) {
  const Index* data = index.const_data_ptr<Index>();
  for (int64_t b = 0; b < index.numel(); ++b) {
    TORCH_CHECK_INDEX(data[b] >= 0 && data[b] < rows, "start_index: expected rows 0 to ", rows - 1, ", got ", data[b]);
  }
}

// A contiguous index that is in range for all the pools.
at::Tensor checked_index(const at::Tensor& index, int64_t batch, int64_t rows) {
  if (!index.defined()) return index;
  TORCH_CHECK_VALUE(index.dim() == 1 && index.size(0) == batch, "start_index: expected shape [", batch, "], got ",
                    index.sizes());
  TORCH_CHECK_TYPE(index.scalar_type() == at::kInt || index.scalar_type() == at::kLong,
                   "start_index: expected int32 or int64, got ", index.scalar_type());
  const at::Tensor contiguous = index.contiguous();
  if (index.scalar_type() == at::kInt) {
    check_rows<int32_t>(contiguous, rows);
  } else {
    check_rows<int64_t>(contiguous, rows);
  }
  return contiguous;
}

StartIndex start_index(const at::Tensor& index) {
  if (!index.defined()) return {};
  return {index.const_data_ptr(), index.scalar_type() == at::kLong};
}


void check_dtype(const at::Tensor& tensor) {
  const at::ScalarType dtype = tensor.scalar_type();
  TORCH_CHECK_TYPE(dtype == at::kFloat || dtype == at::kDouble,
                   "expected float16, bfloat16, float32 or float64, got ", dtype);
  TORCH_CHECK_VALUE(tensor.device().is_cpu(), "expected a tensor on the CPU, got ", tensor.device());
}

template <class Problem>
void set_start(Problem& problem, const OptionalTensors& start, const at::Tensor& index) {
  using Scalar = std::remove_cv_t<std::remove_pointer_t<decltype(problem.action)>>;
  for (int k = 0; k < kStartRows; ++k) {
    if (!start[k].defined()) continue;
    problem.start[k] = start[k].const_data_ptr<Scalar>();
    problem.start_stride[k] = start[k].size(0) == 1 ? 0 : problem.dof;
  }
  problem.start_index = start_index(index);
}

template <class Scalar>
void run_forward(ControlMap map, const at::Tensor& action, const OptionalTensors& start, const at::Tensor& index,
             const at::Tensor& dt, const Outputs& outputs) {
  ForwardProblem<Scalar> problem{};
  problem.map = map;
  problem.action_horizon = action.size(1);
  problem.dof = action.size(2);
  problem.action = action.const_data_ptr<Scalar>();
  set_start(problem, start, index);
  problem.dt = step_lengths(dt);
  for (int k = 0; k < kOutputs; ++k) problem.output[k] = outputs[k].mutable_data_ptr<Scalar>();
  compute(problem, action.size(0));
}

template <class Scalar>
void run_vjp(ControlMap map, const OptionalTensors& upstream, const at::Tensor& index, const at::Tensor& dt,
               int64_t action_horizon, bool truncate_terminal, int64_t batch, std::array<at::Tensor, 5>& gradients) {
  VjpProblem<Scalar> problem{};
  problem.map = map;
  problem.action_horizon = action_horizon;
  problem.dt = step_lengths(dt);
  problem.truncate_terminal = truncate_terminal;
  for (int k = 0; k < kOutputs; ++k) {
    if (!upstream[k].defined()) continue;
    problem.gradient[k] = upstream[k].const_data_ptr<Scalar>();
    problem.dof = upstream[k].size(2);
  }
  if (gradients[0].defined()) problem.action = gradients[0].mutable_data_ptr<Scalar>();
  StartGradients<Scalar> starts{};
  starts.index = start_index(index);
  for (int k = 0; k < kStartRows; ++k) {
    const at::Tensor& gradient = gradients[k + 1];
    if (!gradient.defined()) continue;
    starts.data[k] = gradient.mutable_data_ptr<Scalar>();
    starts.rows[k] = gradient.size(0);
  }
  compute(problem, batch, starts);
}

void check_output(const at::Tensor& output, at::IntArrayRef shape, const at::Tensor& action) {
  TORCH_CHECK_VALUE(output.sizes() == shape && output.is_contiguous() && output.scalar_type() == action.scalar_type() &&
                        output.device() == action.device(),
                    "out: expected contiguous ", action.scalar_type(), " tensors of shape ", shape, ", got ",
                    output.scalar_type(), " of ", output.sizes(), " with strides ", output.strides());
  if (!output.is_inference()) output.unsafeGetTensorImpl()->bump_version();  // tells autograd about the write
}

OptionalTensors checked_upstream(const OptionalTensors& upstream, at::IntArrayRef shape, at::ScalarType dtype) {
  OptionalTensors contiguous;
  for (int k = 0; k < kOutputs; ++k) {
    if (!upstream[k].defined()) continue;
    TORCH_CHECK_VALUE(upstream[k].sizes() == shape, "upstream: expected shape ", shape,
                      ", got ", upstream[k].sizes());
    TORCH_CHECK_TYPE(upstream[k].scalar_type() == dtype, "upstream: expected one dtype, got ",
                     dtype, " and ", upstream[k].scalar_type());
    contiguous[k] = upstream[k].contiguous();
  }
  return contiguous;
}

// Contiguous start rows that fit the action, and the index into their pool.
std::pair<OptionalTensors, at::Tensor> checked_start(const at::Tensor& action, const OptionalTensors& start,
                                                     const at::Tensor& index) {
  const int64_t batch = action.size(0), dof = action.size(2);
  int64_t pool = -1;
  OptionalTensors rows;
  for (int k = 0; k < kStartRows; ++k) {
    if (!start[k].defined()) continue;
    const bool fits = index.defined() || start[k].size(0) == 1 || start[k].size(0) == batch;
    TORCH_CHECK_VALUE(start[k].dim() == 2 && start[k].size(1) == dof && fits && (start[k].size(0) > 0 || batch == 0),
                      "start rows: expected shape [1 or ", batch, ", ", dof, "] or a pool, got ", start[k].sizes());
    TORCH_CHECK_TYPE(start[k].scalar_type() == action.scalar_type(), "start rows: expected the action's dtype ",
                     action.scalar_type(), ", got ", start[k].scalar_type());
    TORCH_CHECK_VALUE(!index.defined() || pool < 0 || pool == start[k].size(0), "start rows: expected one pool size, got ",
                      pool, " and ", start[k].size(0));
    pool = start[k].size(0);
    rows[k] = start[k].contiguous();
  }
  return {rows, checked_index(pool < 0 ? at::Tensor() : index, batch, pool)};
}

template <class Scalar>
void run_dt_gradient(ControlMap map, const OptionalTensors& upstream, const at::Tensor& action,
                 const OptionalTensors& start, const at::Tensor& index, const at::Tensor& dt, double* result) {
  DtGradientProblem<Scalar> problem{};
  problem.map = map;
  problem.batch = action.size(0);
  problem.action_horizon = action.size(1);
  problem.dof = action.size(2);
  problem.action = action.const_data_ptr<Scalar>();
  set_start(problem, start, index);
  problem.dt = step_lengths(dt);
  for (int k = 0; k < kOutputs; ++k) {
    if (upstream[k].defined()) problem.gradient[k] = upstream[k].const_data_ptr<Scalar>();
  }
  dt_gradient(problem, result);
}

// One past the last byte.
const char* end_of(const at::Tensor& tensor) {
  int64_t last = 0;
  for (int64_t d = 0; d < tensor.dim(); ++d) last += (tensor.size(d) - 1) * tensor.stride(d);
  return static_cast<const char*>(tensor.const_data_ptr()) + (last + 1) * static_cast<int64_t>(tensor.itemsize());
}

}  // namespace

bool share_memory(const at::Tensor& a, const at::Tensor& b) {
  if (a.numel() == 0 || b.numel() == 0) return false;
  return static_cast<const char*>(a.const_data_ptr()) < end_of(b) &&
         static_cast<const char*>(b.const_data_ptr()) < end_of(a);
}

Outputs launch_forward(ControlMap map, const at::Tensor& action, const OptionalTensors& start,
                       const at::Tensor& index, const at::Tensor& dt, const Outputs* into) {
  TORCH_CHECK_VALUE(action.dim() == 3 && action.size(1) >= 1, "action: expected shape [batch, horizon >= 1, dof], got ",
                    action.sizes());
  const int64_t batch = action.size(0), horizon = action.size(1), dof = action.size(2);
  if (is_half(action.scalar_type())) {
    TORCH_CHECK_TYPE(into == nullptr, "out: expected float32 or float64, got ", action.scalar_type());
    OptionalTensors wide;
    for (int k = 0; k < kStartRows; ++k) wide[k] = start[k].defined() ? start[k].to(at::kFloat) : start[k];
    Outputs outputs = launch_forward(map, action.to(at::kFloat), wide, index, dt);
    for (at::Tensor& output : outputs) output = output.to(action.scalar_type());
    return outputs;
  }
  check_dtype(action);
  const auto [rows, checked] = checked_start(action, start, index);
  const at::Tensor actions = action.contiguous();
  const std::array<int64_t, 3> shape{batch, output_horizon(map, horizon), dof};
  Outputs outputs;
  for (int k = 0; k < kOutputs; ++k) {
    if (into != nullptr) {
      check_output((*into)[k], shape, action);
      outputs[k] = (*into)[k];
    } else {
      outputs[k] = empty(shape, action);
    }
  }
  const at::Tensor steps = contiguous_double(dt, batch, horizon);
  if (actions.scalar_type() == at::kFloat) {
    run_forward<float>(map, actions, rows, checked, steps, outputs);
  } else {
    run_forward<double>(map, actions, rows, checked, steps, outputs);
  }
  return outputs;
}

std::array<at::Tensor, 5> launch_vjp(ControlMap map, const OptionalTensors& upstream, const at::Tensor& index,
                                           const at::Tensor& dt, const std::array<int64_t, 4>& start_rows,
                                           int64_t action_horizon, const std::array<bool, 5>& needs,
                                           bool truncate_terminal, const at::Tensor& action_into) {
  at::Tensor like;
  for (const at::Tensor& gradient : upstream) {
    if (gradient.defined()) like = gradient;
  }
  TORCH_CHECK_VALUE(like.defined(), "upstream: expected at least one gradient, got none");
  std::array<at::Tensor, 5> gradients;
  if (is_half(like.scalar_type())) {
    TORCH_CHECK_TYPE(!action_into.defined(), "out: expected float32 or float64, got ", like.scalar_type());
    OptionalTensors wide;
    for (int k = 0; k < kOutputs; ++k) wide[k] = upstream[k].defined() ? upstream[k].to(at::kFloat) : upstream[k];
    gradients = launch_vjp(map, wide, index, dt, start_rows, action_horizon, needs, truncate_terminal);
    for (at::Tensor& gradient : gradients) {
      if (gradient.defined()) gradient = gradient.to(like.scalar_type());
    }
    return gradients;
  }
  check_dtype(like);
  TORCH_CHECK_VALUE(like.dim() == 3 && action_horizon >= 1, "upstream: expected shape [batch, horizon, dof], got ",
                    like.sizes());
  const int64_t batch = like.size(0), dof = like.size(2);
  const std::array<int64_t, 3> shape{batch, output_horizon(map, action_horizon), dof};
  const OptionalTensors contiguous = checked_upstream(upstream, shape, like.scalar_type());
  int64_t pool = std::numeric_limits<int64_t>::max();
  if (needs[0] && action_into.defined()) {
    check_output(action_into, {batch, action_horizon, dof}, like);
    gradients[0] = action_into;
  } else if (needs[0]) {
    gradients[0] = empty({batch, action_horizon, dof}, like);
  }
  for (int k = 0; k < kStartRows; ++k) {
    if (!needs[k + 1]) continue;
    TORCH_CHECK_VALUE(index.defined() || start_rows[k] == 1 || start_rows[k] == batch, "start_rows: expected 1 or ",
                      batch, " without start_index, got ", start_rows[k]);
    pool = std::min(pool, start_rows[k]);
    gradients[k + 1] = empty({start_rows[k], dof}, like);
  }
  const at::Tensor checked = checked_index(index, batch, pool);
  const at::Tensor steps = contiguous_double(dt, batch, action_horizon);
  if (like.scalar_type() == at::kFloat) {
    run_vjp<float>(map, contiguous, checked, steps, action_horizon, truncate_terminal, batch, gradients);
  } else {
    run_vjp<double>(map, contiguous, checked, steps, action_horizon, truncate_terminal, batch, gradients);
  }
  return gradients;
}

at::Tensor launch_dt_gradient(ControlMap map, const OptionalTensors& upstream, const at::Tensor& action,
                              const OptionalTensors& start, const at::Tensor& index, const at::Tensor& dt) {
  TORCH_CHECK_VALUE(action.dim() == 3 && action.size(1) >= 1, "action: expected shape [batch, horizon >= 1, dof], got ",
                    action.sizes());
  check_dtype(action);
  const int64_t batch = action.size(0), horizon = action.size(1), dof = action.size(2);
  const auto [rows, checked] = checked_start(action, start, index);
  const at::Tensor steps = contiguous_double(dt, batch, horizon);
  TORCH_CHECK_VALUE(!row_of(map).one_dt || dt.size(1) == 1,
                    "dt: central differences need one step length per trajectory, got shape ", dt.sizes());
  const at::Tensor actions = action.contiguous();
  const OptionalTensors gradients =
      checked_upstream(upstream, {batch, output_horizon(map, horizon), dof}, action.scalar_type());
  const at::Tensor result = empty(dt.sizes(), steps);
  if (actions.scalar_type() == at::kFloat) {
    run_dt_gradient<float>(map, gradients, actions, rows, checked, steps, result.mutable_data_ptr<double>());
  } else {
    run_dt_gradient<double>(map, gradients, actions, rows, checked, steps, result.mutable_data_ptr<double>());
  }
  return result;
}

}  // namespace traj_integrator
