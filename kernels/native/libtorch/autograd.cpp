// Derivatives of the maps. They are linear in actions, start and goal, so the step and its vector-Jacobian product are
// each other's derivative: only dt and the indices are saved, and derivatives of any order need no further code.
#include "autograd.h"

#include <ATen/core/grad_mode.h>
#include <ATen/ops/cat.h>
#include <ATen/ops/empty.h>
#include <ATen/ops/zeros.h>
#include <ATen/ops/zeros_like.h>
#include <torch/csrc/autograd/custom_function.h>

#include <optional>
#include <vector>

namespace traj_integrator {
namespace {

using at::Tensor;
using torch::autograd::AutogradContext;
using torch::autograd::variable_list;
using MaybeTensor = std::optional<Tensor>;

MaybeTensor maybe(const Tensor& tensor) { return tensor.defined() ? MaybeTensor(tensor) : std::nullopt; }

std::vector<int64_t> numbers_of(const Map& map) {
  return {static_cast<int64_t>(map.map), reinterpret_cast<int64_t>(map.spline), map.truncate_terminal};
}
Map map_of(const std::vector<int64_t>& numbers) {
  return {static_cast<ControlMap>(numbers[0]), reinterpret_cast<const SplineForm*>(numbers[1]), numbers[2] != 0};
}
constexpr size_t kOwn = 3;  // the numbers behind those of the map begin here

// Rows of the tensors that are defined, which have as many; -1: there are none.
int64_t rows_of(const Four& rows) {
  for (const Tensor& each : rows) {
    if (each.defined()) return each.size(0);
  }
  return -1;
}

class StepFunction : public torch::autograd::Function<StepFunction> {
 public:
  static variable_list forward(AutogradContext* ctx, const Tensor&, const MaybeTensor&, const MaybeTensor&,
                               const MaybeTensor&, const MaybeTensor&, const MaybeTensor&, const MaybeTensor&,
                               const MaybeTensor&, const MaybeTensor&, const Step* step) {
    ctx->set_materialize_grads(false);
    ctx->save_for_backward({step->dt, step->start.index, step->goal.index});
    std::vector<int64_t> numbers = numbers_of(step->map);
    numbers.insert(numbers.end(), {step->action.size(1), rows_of(step->start.rows), rows_of(step->goal.rows)});
    for (const Tensor& tensor : step->tensors()) numbers.push_back(tensor.defined());
    ctx->saved_data["numbers"] = std::move(numbers);
    Four outputs = launch_forward(*step);
    return {outputs.begin(), outputs.end()};
  }

  static variable_list backward(AutogradContext* ctx, const variable_list& upstream) {
    variable_list result(10);  // one for each argument of forward
    if (!any_defined(upstream)) return result;
    const variable_list saved = ctx->get_saved_variables();
    const std::vector<int64_t> numbers = ctx->saved_data["numbers"].toIntVector();
    const int64_t* const own = numbers.data() + kOwn;
    StepVjp vjp{map_of(numbers), {upstream[0], upstream[1], upstream[2], upstream[3]}, saved[1], saved[2], saved[0],
                own[1], own[2], own[0], {}};
    size_t edge = 0;  // only tensors that were given have one
    for (size_t k = 0; k < 9; ++k) vjp.needs[k] = own[3 + k] != 0 && ctx->needs_input_grad(edge++);
    Nine gradients = differentiable_vjp(vjp);
    std::move(gradients.begin(), gradients.end(), result.begin());
    return result;
  }
};

// The adjoint of the truncated vjp: the last action reaches the positions alone.
Four step_for_vjp(const Step& step) {
  Four outputs = differentiable_step(step);
  if (!step.map.truncate_terminal) return outputs;
  Step without = step;
  const int64_t last = step.action.size(1) - 1;
  const Tensor none = at::zeros_like(step.action.narrow(1, last, 1));
  without.action = at::cat({step.action.narrow(1, 0, last), none}, 1);
  Four others = differentiable_step(without);
  return {outputs[0], others[1], others[2], others[3]};
}

class VjpFunction : public torch::autograd::Function<VjpFunction> {
 public:
  static variable_list forward(AutogradContext* ctx, const MaybeTensor&, const MaybeTensor&, const MaybeTensor&,
                               const MaybeTensor&, const StepVjp* vjp) {
    ctx->set_materialize_grads(false);
    ctx->save_for_backward({vjp->dt, vjp->start_index, vjp->goal_index});
    Nine gradients = launch_vjp(*vjp);
    Tensor like;
    std::vector<int64_t> numbers = numbers_of(vjp->map);
    for (const Tensor& gradient : vjp->upstream) {
      numbers.push_back(gradient.defined());
      if (gradient.defined()) like = gradient;
    }
    numbers.insert(numbers.end(), {like.size(0), vjp->actions, like.size(2), static_cast<int64_t>(like.scalar_type()),
                                   vjp->goal_rows});
    ctx->saved_data["numbers"] = std::move(numbers);
    // Functions must return defined tensors: results that are not wanted are empty here, and undefined again outside.
    variable_list results;
    for (Tensor& gradient : gradients) {
      results.push_back(gradient.defined() ? std::move(gradient) : at::empty({0}, like.options()));
    }
    return results;
  }

  static variable_list backward(AutogradContext* ctx, const variable_list& given) {
    variable_list result(5);  // one for each argument of forward
    if (!any_defined(given)) return result;
    const variable_list saved = ctx->get_saved_variables();
    const std::vector<int64_t> numbers = ctx->saved_data["numbers"].toIntVector();
    const int64_t* const own = numbers.data() + kOwn;
    const auto options = saved[0].options().dtype(static_cast<at::ScalarType>(own[7]));
    const int64_t batch = own[4], actions = own[5], dof = own[6], goal_rows = own[8];
    Step step{map_of(numbers), given[0], {}, {}, saved[0]};
    if (!step.action.defined()) step.action = at::zeros({batch, actions, dof}, options);
    for (size_t k = 0; k < 4; ++k) step.start.rows[k] = given[1 + k], step.goal.rows[k] = given[5 + k];
    if (any_defined(step.start.rows)) step.start.index = saved[1];
    if (goal_rows >= 0) {
      step.goal.index = saved[2];
      if (!step.goal.rows[0].defined()) step.goal.rows[0] = at::zeros({goal_rows, dof}, options);
    }
    Four outputs = step_for_vjp(step);
    for (size_t k = 0; k < 4; ++k) {
      if (own[k] != 0) result[k] = std::move(outputs[k]);
    }
    return result;
  }
};

template <class Tensors>
bool is_recorded(const Tensors& tensors) {
  if (!at::GradMode::is_enabled()) return false;
  for (const Tensor& tensor : tensors) {
    if (tensor.defined() && tensor.requires_grad()) return true;
  }
  return false;
}

}  // namespace

Nine differentiable_vjp(const StepVjp& vjp) {
  const Four& g = vjp.upstream;
  if (!is_recorded(g)) return launch_vjp(vjp);
  variable_list results = VjpFunction::apply(maybe(g[0]), maybe(g[1]), maybe(g[2]), maybe(g[3]), &vjp);
  Nine gradients;
  for (size_t k = 0; k < 9; ++k) {
    if (vjp.needs[k]) gradients[k] = std::move(results[k]);
  }
  return gradients;
}

Four differentiable_step(const Step& step) {
  if (!is_recorded(step.tensors())) return launch_forward(step);
  const Four &s = step.start.rows, &g = step.goal.rows;
  variable_list outputs = StepFunction::apply(step.action, maybe(s[0]), maybe(s[1]), maybe(s[2]), maybe(s[3]), maybe(g[0]),
                                              maybe(g[1]), maybe(g[2]), maybe(g[3]), &step);
  return {std::move(outputs[0]), std::move(outputs[1]), std::move(outputs[2]), std::move(outputs[3])};
}

}  // namespace traj_integrator
