// Derivatives of the maps. They are linear in actions, start and goal, so the step and its vector-Jacobian product are
// each other's derivative: only dt and the indices are saved, and derivatives of any order need no further code.
#include <ATen/core/grad_mode.h>
#include <ATen/ops/cat.h>
#include <ATen/ops/zeros.h>
#include <ATen/ops/zeros_like.h>
#include <torch/csrc/autograd/custom_function.h>

#include <vector>

#include "linear.h"

namespace traj_integrator {
namespace {

using at::Tensor;
using torch::autograd::AutogradContext;
using torch::autograd::variable_list;

// The knowledge of a node beside its saved tensors. Autograd sees defined tensors only: the others are left out.
struct Kept : torch::CustomClassHolder {
  Linear linear;
  std::vector<size_t> inputs, outputs;  // indices among the four or nine
  Tensor like;                          // an empty tensor of the dtype
  int64_t batch = 0, dof = 0;
};

template <class Tensors>
variable_list gathered(const Tensors& tensors, const std::vector<size_t>& places) {
  variable_list result;
  for (const size_t place : places) result.push_back(tensors[place]);
  return result;
}

template <size_t count>
std::array<Tensor, count> spread(at::TensorList tensors, const std::vector<size_t>& places) {
  std::array<Tensor, count> result;
  for (size_t k = 0; k < places.size(); ++k) result[places[k]] = tensors[k];
  return result;
}

template <size_t count>
std::vector<size_t> places_of(const std::array<Tensor, count>& tensors) {
  std::vector<size_t> places;
  for (size_t k = 0; k < count; ++k) {
    if (tensors[k].defined()) places.push_back(k);
  }
  return places;
}

Needs needs_of(const std::vector<size_t>& places) {
  Needs needs{};
  for (const size_t place : places) needs[place] = true;
  return needs;
}

// The adjoint of the vjp: the step. In the truncated vjp, the last action affects the positions alone.
Four step_for_vjp(const Linear& linear, const Nine& inputs) {
  Four outputs = differentiable_step(linear, inputs);
  if (!linear.truncate_terminal) return outputs;
  Nine without = inputs;
  const int64_t last = linear.actions - 1;
  without[0] = at::cat({inputs[0].narrow(1, 0, last), at::zeros_like(inputs[0].narrow(1, last, 1))}, 1);
  Four others = differentiable_step(linear, without);
  return {outputs[0], others[1], others[2], others[3]};
}

// A step, or its vjp.
template <bool is_vjp>
struct Node : torch::autograd::Function<Node<is_vjp>> {
  static variable_list forward(AutogradContext* ctx, at::TensorList given, const c10::intrusive_ptr<Kept>& kept) {
    const Linear& linear = kept->linear;
    ctx->set_materialize_grads(false);
    ctx->save_for_backward({linear.dt, linear.index[0], linear.index[1]});
    ctx->saved_data["kept"] = c10::IValue::make_capsule(kept);
    if constexpr (is_vjp) {
      return gathered(launch_vjp(linear, spread<4>(given, kept->inputs), needs_of(kept->outputs)), kept->outputs);
    } else {
      return gathered(launch_forward(linear, spread<9>(given, kept->inputs)), kept->outputs);
    }
  }

  static variable_list backward(AutogradContext* ctx, const variable_list& given) {
    const auto kept = c10::static_intrusive_pointer_cast<Kept>(ctx->saved_data["kept"].toCapsule());
    variable_list result(kept->inputs.size());
    if (!first_defined(given).defined()) return result.emplace_back(), result;  // one for each argument of forward
    const variable_list saved = ctx->get_saved_variables();
    Linear linear = kept->linear;
    linear.dt = saved[0], linear.index[0] = saved[1], linear.index[1] = saved[2];
    if constexpr (is_vjp) {
      Nine inputs = spread<9>(given, kept->outputs);
      if (!inputs[0].defined()) inputs[0] = at::zeros({kept->batch, linear.actions, kept->dof}, kept->like.options());
      result = gathered(step_for_vjp(linear, inputs), kept->inputs);
    } else {
      Needs needs{};
      for (size_t k = 0; k < kept->inputs.size(); ++k) needs[kept->inputs[k]] = ctx->needs_input_grad(k);
      result = gathered(differentiable_vjp(linear, spread<4>(given, kept->outputs), needs), kept->inputs);
    }
    result.emplace_back();
    return result;
  }
};

template <class Tensors>
bool is_recorded(const Tensors& tensors) {
  return at::GradMode::is_enabled() && std::any_of(tensors.begin(), tensors.end(), [](const Tensor& tensor) {
    return tensor.defined() && tensor.requires_grad();
  });
}

template <bool is_vjp, size_t count>
variable_list recorded(const Linear& linear, const std::array<Tensor, count>& inputs, std::vector<size_t> outputs) {
  const auto kept = c10::make_intrusive<Kept>();
  kept->linear = linear;
  kept->inputs = places_of(inputs);
  kept->outputs = std::move(outputs);
  const Tensor like = first_defined(inputs);
  kept->like = at::zeros({0}, like.options());
  kept->batch = like.size(0), kept->dof = like.size(-1);
  const variable_list given = gathered(inputs, kept->inputs);
  return Node<is_vjp>::apply(at::TensorList(given), kept);
}

}  // namespace

Nine differentiable_vjp(const Linear& linear, const Four& upstream, const Needs& needs) {
  if (!is_recorded(upstream)) return launch_vjp(linear, upstream, needs);
  std::vector<size_t> wanted;
  for (size_t k = 0; k < needs.size(); ++k) {
    if (needs[k]) wanted.push_back(k);
  }
  return spread<9>(recorded<true>(linear, upstream, wanted), wanted);
}

Four differentiable_step(const Linear& linear, const Nine& inputs) {
  if (!is_recorded(inputs)) return launch_forward(linear, inputs);
  const std::vector<size_t> all{0, 1, 2, 3};
  return spread<4>(recorded<false>(linear, inputs, all), all);
}

}  // namespace traj_integrator
