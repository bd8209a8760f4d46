// Derivatives of the operators. The maps are linear in actions and start rows, so each of the two operators is the
// other's derivative: nothing is saved but dt and the index, and derivatives of any order come for free.
#include <ATen/core/LegacyTypeDispatch.h>
#include <ATen/ops/zeros.h>
#include <torch/csrc/autograd/custom_function.h>
#include <torch/library.h>

#include "operators.h"
#include "problem.h"

namespace traj_integrator {
namespace {

using at::Tensor;
using torch::autograd::AutogradContext;
using torch::autograd::variable_list;

MaybeTensor maybe(const Tensor& tensor) { return tensor.defined() ? MaybeTensor(tensor) : std::nullopt; }
bool has(const MaybeTensor& tensor) { return tensor.has_value() && tensor->defined(); }

variable_list to_list(StepOutputs&& outputs) {
  auto& [position, velocity, acceleration, jerk] = outputs;
  return {std::move(position), std::move(velocity), std::move(acceleration), std::move(jerk)};
}

variable_list to_list(StepGradients&& gradients) {
  auto& [action, position, velocity, acceleration, jerk] = gradients;
  return {std::move(action), std::move(position), std::move(velocity), std::move(acceleration), std::move(jerk)};
}

// The transpose of the truncated transpose: the last action reaches the positions alone.
StepOutputs step_for_vjp(int64_t map, const Tensor& action, const MaybeTensor& p0, const MaybeTensor& v0,
                               const MaybeTensor& a0, const MaybeTensor& j0, const MaybeTensor& start_index,
                               const Tensor& dt, bool truncate) {
  StepOutputs outputs = call_step(map, action, p0, v0, a0, j0, start_index, dt, truncate);
  if (!truncate) return outputs;
  const int64_t last = action.size(1) - 1;
  const Tensor without = at::cat({action.narrow(1, 0, last), at::zeros_like(action.narrow(1, last, 1))}, 1);
  const StepOutputs cut = call_step(map, without, p0, v0, a0, j0, start_index, dt, truncate);
  return {std::get<0>(outputs), std::get<1>(cut), std::get<2>(cut), std::get<3>(cut)};
}

class StepFunction : public torch::autograd::Function<StepFunction> {
 public:
  // Backward calls dispatched operators alone and takes what it needs from saved variables and saved_data.
  static constexpr bool is_traceable = true;

  static variable_list forward(AutogradContext* ctx, int64_t map, const Tensor& action, const MaybeTensor& p0,
                               const MaybeTensor& v0, const MaybeTensor& a0, const MaybeTensor& j0,
                               const MaybeTensor& start_index, const Tensor& dt, bool truncate) {
    ctx->set_materialize_grads(false);
    ctx->save_for_backward({dt, start_index.value_or(Tensor())});
    const auto rows = [](const MaybeTensor& start) { return has(start) ? start->size(0) : 0; };
    ctx->saved_data["sizes"] =
        std::vector<int64_t>{map, truncate, action.size(1), rows(p0), rows(v0), rows(a0), rows(j0)};
    at::AutoDispatchBelowADInplaceOrView below;
    return to_list(call_step(map, action, p0, v0, a0, j0, start_index, dt, truncate));
  }

  static variable_list backward(AutogradContext* ctx, const variable_list& upstream) {
    variable_list result(9);  // one for each argument of forward
    bool any = false;
    for (const Tensor& gradient : upstream) any = any || gradient.defined();
    if (!any) return result;
    const variable_list saved = ctx->get_saved_variables();
    const std::vector<int64_t> sizes = ctx->saved_data["sizes"].toIntVector();
    std::vector<int64_t> needs(5), rows(4);
    size_t edge = 0;  // only tensors that were given have one
    needs[0] = ctx->needs_input_grad(edge++);
    for (size_t k = 0; k < 4; ++k) {
      rows[k] = sizes[3 + k];
      needs[k + 1] = rows[k] > 0 && ctx->needs_input_grad(edge++);
    }
    variable_list gradients =
        to_list(call_step_vjp(sizes[0], maybe(upstream[0]), maybe(upstream[1]), maybe(upstream[2]),
                                    maybe(upstream[3]), maybe(saved[1]), saved[0], rows, sizes[2], needs, sizes[1]));
    for (size_t k = 0; k < 5; ++k) result[k + 1] = std::move(gradients[k]);
    return result;
  }
};

class StepVjpFunction : public torch::autograd::Function<StepVjpFunction> {
 public:
  static constexpr bool is_traceable = true;

  static variable_list forward(AutogradContext* ctx, int64_t map, const MaybeTensor& g_position,
                               const MaybeTensor& g_velocity, const MaybeTensor& g_acceleration,
                               const MaybeTensor& g_jerk, const MaybeTensor& start_index, const Tensor& dt,
                               std::vector<int64_t> start_rows, int64_t action_horizon, std::vector<int64_t> needs,
                               bool truncate) {
    ctx->set_materialize_grads(false);
    ctx->save_for_backward({dt, start_index.value_or(Tensor())});
    const Tensor& like = has(g_position) ? *g_position : has(g_velocity) ? *g_velocity
                                                     : has(g_acceleration) ? *g_acceleration
                                                                           : *g_jerk;
    ctx->saved_data["sizes"] = std::vector<int64_t>{map,           truncate,        like.size(0),       action_horizon,
                                                    like.size(2),  has(g_position), has(g_velocity),    has(g_acceleration),
                                                    has(g_jerk)};
    ctx->saved_data["dtype"] = static_cast<int64_t>(like.scalar_type());
    at::AutoDispatchBelowADInplaceOrView below;
    variable_list gradients = to_list(call_step_vjp(map, g_position, g_velocity, g_acceleration, g_jerk, start_index,
                                                          dt, start_rows, action_horizon, needs, truncate));
    // Functions return defined tensors: what was not asked for is empty, and undefined again outside.
    for (Tensor& gradient : gradients) {
      if (!gradient.defined()) gradient = at::empty({0}, like.options());
    }
    return gradients;
  }

  static variable_list backward(AutogradContext* ctx, const variable_list& upstream) {
    variable_list result(11);
    bool any = false;
    for (const Tensor& gradient : upstream) any = any || gradient.defined();
    if (!any) return result;
    const variable_list saved = ctx->get_saved_variables();
    const std::vector<int64_t> sizes = ctx->saved_data["sizes"].toIntVector();
    Tensor action = upstream[0];
    if (!action.defined()) {
      const auto dtype = static_cast<at::ScalarType>(ctx->saved_data["dtype"].toInt());
      action = at::zeros({sizes[2], sizes[3], sizes[4]}, saved[0].options().dtype(dtype));
    }
    variable_list outputs =
        to_list(step_for_vjp(sizes[0], action, maybe(upstream[1]), maybe(upstream[2]), maybe(upstream[3]),
                                   maybe(upstream[4]), maybe(saved[1]), saved[0], sizes[1]));
    for (size_t k = 0; k < 4; ++k) {
      if (sizes[5 + k] != 0) result[k + 1] = std::move(outputs[k]);
    }
    return result;
  }
};

const Tensor& tangent_of(const Tensor& tensor) { return tensor._fw_grad(/*level=*/0); }
bool has_tangent(const Tensor& tensor) { return tensor.defined() && tangent_of(tensor).defined(); }
bool has_tangent(const MaybeTensor& tensor) { return has(tensor) && has_tangent(*tensor); }
bool wants_gradient(const MaybeTensor& tensor) { return has(tensor) && tensor->requires_grad(); }

MaybeTensor tangent(const MaybeTensor& tensor) {
  return has_tangent(tensor) ? MaybeTensor(tangent_of(*tensor)) : std::nullopt;
}

MaybeTensor primal(const MaybeTensor& tensor) {
  return has_tangent(tensor) ? MaybeTensor(tensor->_fw_primal(/*level=*/0)) : tensor;
}

void refuse_dt(const Tensor& dt) {
  TORCH_CHECK_NOT_IMPLEMENTED(!dt.requires_grad() && !has_tangent(dt),
                              "dt: the C++ operator has no derivative by dt; detach it, or use the Python functions");
}

// The maps are linear: the tangent of the outputs is the map of the tangents.
StepOutputs step_forward_mode(int64_t map, const Tensor& action, const MaybeTensor& p0, const MaybeTensor& v0,
                              const MaybeTensor& a0, const MaybeTensor& j0, const MaybeTensor& start_index,
                              const Tensor& dt, bool truncate) {
  const Tensor moved = has_tangent(action) ? tangent_of(action) : at::zeros_like(action);
  variable_list tangents =
      to_list(call_step(map, moved, tangent(p0), tangent(v0), tangent(a0), tangent(j0), start_index, dt, truncate));
  const Tensor still = has_tangent(action) ? action._fw_primal(0) : action;
  StepOutputs outputs =
      call_step(map, still, primal(p0), primal(v0), primal(a0), primal(j0), start_index, dt, truncate);
  std::get<0>(outputs)._set_fw_grad(tangents[0], 0, /*is_inplace_op=*/false);
  std::get<1>(outputs)._set_fw_grad(tangents[1], 0, false);
  std::get<2>(outputs)._set_fw_grad(tangents[2], 0, false);
  std::get<3>(outputs)._set_fw_grad(tangents[3], 0, false);
  return outputs;
}

StepOutputs step_autograd(int64_t map, const Tensor& action, const MaybeTensor& p0, const MaybeTensor& v0,
                          const MaybeTensor& a0, const MaybeTensor& j0, const MaybeTensor& start_index, const Tensor& dt,
                          bool truncate) {
  refuse_dt(dt);
  if (has_tangent(action) || has_tangent(p0) || has_tangent(v0) || has_tangent(a0) || has_tangent(j0)) {
    return step_forward_mode(map, action, p0, v0, a0, j0, start_index, dt, truncate);
  }
  const bool recorded = at::GradMode::is_enabled() && (action.requires_grad() || wants_gradient(p0) ||
                                                       wants_gradient(v0) || wants_gradient(a0) || wants_gradient(j0));
  if (!recorded) {
    at::AutoDispatchBelowADInplaceOrView below;
    return call_step(map, action, p0, v0, a0, j0, start_index, dt, truncate);
  }
  variable_list outputs = StepFunction::apply(map, action, p0, v0, a0, j0, start_index, dt, truncate);
  return {std::move(outputs[0]), std::move(outputs[1]), std::move(outputs[2]), std::move(outputs[3])};
}

StepGradients step_vjp_forward_mode(int64_t map, const MaybeTensor& g_position, const MaybeTensor& g_velocity,
                                          const MaybeTensor& g_acceleration, const MaybeTensor& g_jerk,
                                          const MaybeTensor& start_index, const Tensor& dt, at::IntArrayRef start_rows,
                                          int64_t action_horizon, at::IntArrayRef needs, bool truncate) {
  const variable_list tangents =
      to_list(call_step_vjp(map, tangent(g_position), tangent(g_velocity), tangent(g_acceleration),
                                  tangent(g_jerk), start_index, dt, start_rows, action_horizon, needs, truncate));
  variable_list g =
      to_list(call_step_vjp(map, primal(g_position), primal(g_velocity), primal(g_acceleration), primal(g_jerk),
                                  start_index, dt, start_rows, action_horizon, needs, truncate));
  for (size_t k = 0; k < 5; ++k) {
    if (g[k].defined()) g[k]._set_fw_grad(tangents[k], 0, /*is_inplace_op=*/false);
  }
  return {std::move(g[0]), std::move(g[1]), std::move(g[2]), std::move(g[3]), std::move(g[4])};
}

StepGradients step_vjp_autograd(int64_t map, const MaybeTensor& g_position, const MaybeTensor& g_velocity,
                                      const MaybeTensor& g_acceleration, const MaybeTensor& g_jerk,
                                      const MaybeTensor& start_index, const Tensor& dt, at::IntArrayRef start_rows,
                                      int64_t action_horizon, at::IntArrayRef needs, bool truncate) {
  refuse_dt(dt);
  if (has_tangent(g_position) || has_tangent(g_velocity) || has_tangent(g_acceleration) || has_tangent(g_jerk)) {
    return step_vjp_forward_mode(map, g_position, g_velocity, g_acceleration, g_jerk, start_index, dt, start_rows,
                                       action_horizon, needs, truncate);
  }
  const bool recorded = at::GradMode::is_enabled() && (wants_gradient(g_position) || wants_gradient(g_velocity) ||
                                                       wants_gradient(g_acceleration) || wants_gradient(g_jerk));
  if (!recorded) {
    at::AutoDispatchBelowADInplaceOrView below;
    return call_step_vjp(map, g_position, g_velocity, g_acceleration, g_jerk, start_index, dt, start_rows,
                               action_horizon, needs, truncate);
  }
  variable_list g = StepVjpFunction::apply(map, g_position, g_velocity, g_acceleration, g_jerk, start_index, dt,
                                                 start_rows.vec(), action_horizon, needs.vec(), truncate);
  for (size_t k = 0; k < 5; ++k) {
    if (needs[k] == 0) g[k] = Tensor();
  }
  return {std::move(g[0]), std::move(g[1]), std::move(g[2]), std::move(g[3]), std::move(g[4])};
}

}  // namespace

TORCH_LIBRARY_IMPL(traj_integrator_native, Autograd, library) {
  library.impl("step", step_autograd);
  library.impl("step_vjp", step_vjp_autograd);
}

}  // namespace traj_integrator
