// Derivatives of the maps. They are linear in actions and start rows, so the step and its vector-Jacobian product are
// each other's derivative: only dt and the index are saved, and derivatives of any order need no further code.
#include "autograd.h"

#include <ATen/ops/alias.h>
#include <ATen/ops/cat.h>
#include <ATen/ops/empty.h>
#include <ATen/ops/zeros.h>
#include <ATen/ops/zeros_like.h>
#include <torch/csrc/autograd/custom_function.h>

#include "plain.h"

namespace traj_integrator {
namespace {

using at::Tensor;
using torch::autograd::AutogradContext;
using torch::autograd::variable_list;

GeneralVjp general_vjp = nullptr;

Gradients launch(const VjpArguments& a, const Tensor& action_into = {}) {
  return launch_vjp(a.map, a.upstream, a.start_index, a.dt, a.start_rows, a.action_horizon, a.needs,
                    a.truncate_terminal_gradient, action_into);
}

// The gradient of the action in the caller's buffer. The buffer is returned as the gradient only if nobody else can end
// up owning its memory: if the action is a leaf, because autograd copies a gradient that is referenced elsewhere into
// `.grad`; for a non-leaf it may pass on a view. A buffer written since the step is not touched: a gradient that
// another backward put there may not have been accumulated yet.
Gradients vjp_into_buffer(const VjpArguments& arguments, const Tensor& buffer, int64_t version, bool is_leaf) {
  if (static_cast<int64_t>(buffer._version()) != version || !arguments.needs[0]) return differentiable_vjp(arguments);
  const bool direct = is_leaf && !at::GradMode::is_enabled() && no_mode_is_active();
  bool apart = direct;
  for (const Tensor& upstream : arguments.upstream) {
    if (upstream.defined()) apart = apart && is_plain(upstream) && !share_memory(upstream, buffer);
  }
  if (apart) return launch(arguments, buffer);
  Gradients gradients = differentiable_vjp(arguments);
  {
    at::NoGradGuard no_grad;
    Tensor(buffer).copy_(gradients[0].detach());
  }
  if (direct) gradients[0] = buffer;
  return gradients;
}

class StepFunction : public torch::autograd::Function<StepFunction> {
 public:
  // Backward calls operators that can be traced and takes what it needs from saved variables and saved_data.
  static constexpr bool is_traceable = true;

  static variable_list forward(AutogradContext* ctx, const Tensor& action, const MaybeTensor&, const MaybeTensor&,
                               const MaybeTensor&, const MaybeTensor&, const StepArguments* arguments,
                               const CallerBuffers* buffers) {
    ctx->set_materialize_grads(false);
    ctx->save_for_backward({arguments->dt, arguments->start_index});
    std::vector<int64_t> numbers{static_cast<int64_t>(arguments->map), arguments->truncate_terminal_gradient,
                                 action.size(1)};
    for (const Tensor& rows : arguments->start) numbers.push_back(rows.defined() ? rows.size(0) : 0);
    Outputs outputs = launch_forward(arguments->map, arguments->action, arguments->start, arguments->start_index,
                                     arguments->dt, buffers == nullptr ? nullptr : &buffers->output);
    if (buffers != nullptr) {
      for (Tensor& output : outputs) output = at::alias(output);
      if (buffers->gradient.defined()) {
        numbers.push_back(static_cast<int64_t>(buffers->gradient._version()));
        numbers.push_back(action.is_leaf());
        // The gradient is written to it, not computed from it: save_for_backward would treat the write as an error.
        ctx->saved_data["buffer"] = buffers->gradient;
      }
    }
    ctx->saved_data["numbers"] = std::move(numbers);
    return {std::move(outputs[0]), std::move(outputs[1]), std::move(outputs[2]), std::move(outputs[3])};
  }

  static variable_list backward(AutogradContext* ctx, const variable_list& upstream) {
    variable_list result(7);  // one for each argument of forward
    if (!any_defined(upstream)) return result;
    const variable_list saved = ctx->get_saved_variables();
    const std::vector<int64_t> numbers = ctx->saved_data["numbers"].toIntVector();
    VjpArguments arguments{static_cast<ControlMap>(numbers[0]),
                           {upstream[0], upstream[1], upstream[2], upstream[3]},
                           saved[1],
                           saved[0],
                           {numbers[3], numbers[4], numbers[5], numbers[6]},
                           numbers[2],
                           {},
                           numbers[1] != 0};
    size_t edge = 0;  // only tensors that were given have one
    arguments.needs[0] = ctx->needs_input_grad(edge++);
    for (size_t k = 0; k < 4; ++k) {
      arguments.needs[k + 1] = arguments.start_rows[k] > 0 && ctx->needs_input_grad(edge++);
    }
    Gradients gradients =
        numbers.size() > 7
            ? vjp_into_buffer(arguments, ctx->saved_data["buffer"].toTensor(), numbers[7], numbers[8] != 0)
            : differentiable_vjp(arguments);
    for (size_t k = 0; k < 5; ++k) result[k] = std::move(gradients[k]);
    return result;
  }
};

// The adjoint of the truncated vjp: the last action reaches the positions alone.
Outputs step_for_vjp(const StepArguments& arguments) {
  Outputs outputs = differentiable_step(arguments);
  if (!arguments.truncate_terminal_gradient) return outputs;
  StepArguments without = arguments;
  const int64_t last = arguments.action.size(1) - 1;
  const Tensor none = at::zeros_like(arguments.action.narrow(1, last, 1));
  without.action = at::cat({arguments.action.narrow(1, 0, last), none}, 1);
  const Outputs cut = differentiable_step(without);
  return {outputs[0], cut[1], cut[2], cut[3]};
}

// For C++ without Python.
class VjpFunction : public torch::autograd::Function<VjpFunction> {
 public:
  static variable_list forward(AutogradContext* ctx, const MaybeTensor&, const MaybeTensor&, const MaybeTensor&,
                               const MaybeTensor&, const VjpArguments* arguments) {
    ctx->set_materialize_grads(false);
    ctx->save_for_backward({arguments->dt, arguments->start_index});
    Gradients gradients = launch(*arguments);
    Tensor like;
    std::vector<int64_t> numbers{static_cast<int64_t>(arguments->map), arguments->truncate_terminal_gradient,
                                 arguments->action_horizon};
    for (const Tensor& gradient : arguments->upstream) {
      numbers.push_back(gradient.defined());
      if (gradient.defined()) like = gradient;
    }
    numbers.insert(numbers.end(), {like.size(0), like.size(2), static_cast<int64_t>(like.scalar_type())});
    ctx->saved_data["numbers"] = std::move(numbers);
    // Functions must return defined tensors: results that are not wanted are empty here, and undefined again outside.
    variable_list results;
    for (Tensor& gradient : gradients) {
      results.push_back(gradient.defined() ? std::move(gradient) : at::empty({0}, like.options()));
    }
    return results;
  }

  static variable_list backward(AutogradContext* ctx, const variable_list& upstream) {
    variable_list result(5);
    if (!any_defined(upstream)) return result;
    const variable_list saved = ctx->get_saved_variables();
    const std::vector<int64_t> numbers = ctx->saved_data["numbers"].toIntVector();
    StepArguments arguments{static_cast<ControlMap>(numbers[0]),
                            upstream[0],
                            {upstream[1], upstream[2], upstream[3], upstream[4]},
                            saved[1],
                            saved[0],
                            numbers[1] != 0};
    if (!arguments.action.defined()) {
      const auto dtype = static_cast<at::ScalarType>(numbers[9]);
      arguments.action = at::zeros({numbers[7], numbers[2], numbers[8]}, saved[0].options().dtype(dtype));
    }
    Outputs outputs = step_for_vjp(arguments);
    for (size_t k = 0; k < 4; ++k) {
      if (numbers[3 + k] != 0) result[k] = std::move(outputs[k]);
    }
    return result;
  }
};

}  // namespace

Gradients differentiable_vjp(const VjpArguments& arguments) {
  bool ordinary = !at::GradMode::is_enabled() && no_mode_is_active();
  for (const Tensor& gradient : arguments.upstream) {
    if (gradient.defined()) ordinary = ordinary && is_plain(gradient);
  }
  if (ordinary) return launch(arguments);
  if (general_vjp != nullptr) return general_vjp(arguments);
  const auto& g = arguments.upstream;
  variable_list results = VjpFunction::apply(maybe(g[0]), maybe(g[1]), maybe(g[2]), maybe(g[3]), &arguments);
  Gradients gradients;
  for (size_t k = 0; k < 5; ++k) {
    if (arguments.needs[k]) gradients[k] = std::move(results[k]);
  }
  return gradients;
}

void set_general_vjp(GeneralVjp vjp) { general_vjp = vjp; }

Outputs differentiable_step(const StepArguments& arguments, const CallerBuffers* buffers) {
  const auto& start = arguments.start;
  bool recorded = buffers != nullptr;
  if (at::GradMode::is_enabled()) {
    recorded = recorded || arguments.action.requires_grad();
    for (const Tensor& rows : start) recorded = recorded || (rows.defined() && rows.requires_grad());
  }
  if (!recorded) {
    return launch_forward(arguments.map, arguments.action, start, arguments.start_index, arguments.dt);
  }
  variable_list outputs = StepFunction::apply(arguments.action, maybe(start[0]), maybe(start[1]), maybe(start[2]),
                                              maybe(start[3]), &arguments, buffers);
  return {std::move(outputs[0]), std::move(outputs[1]), std::move(outputs[2]), std::move(outputs[3])};
}

}  // namespace traj_integrator
