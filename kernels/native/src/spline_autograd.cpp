// Derivatives of splines. They are linear in control points, start and goal, so the map and its vector-Jacobian product are
// each other's derivative: see autograd.cpp, which has the same for the other maps.
#include "spline_autograd.h"

#include <ATen/ops/empty.h>
#include <ATen/ops/zeros.h>
#include <torch/csrc/autograd/custom_function.h>

#include "optional_tensors.h"
#include "plain.h"

namespace traj_integrator {
namespace {

using at::Tensor;
using torch::autograd::AutogradContext;
using torch::autograd::variable_list;
using Four = std::array<Tensor, 4>;
using Nine = std::array<Tensor, 9>;

GeneralSplineVjp general_spline_vjp = nullptr;

// Rows of the tensors that are defined, which have as many; -1: there are none.
int64_t rows_of(const Four& rows) {
  for (const Tensor& each : rows) {
    if (each.defined()) return each.size(0);
  }
  return -1;
}

// What saved variables and numbers keep between the directions.
variable_list kept_tensors(const SplineForm& form, const Tensor& dt, const Tensor& start_index, const Tensor& goal_index) {
  return {dt, start_index, goal_index, form.weights, form.state_weights};
}
std::vector<int64_t> kept_numbers(const SplineForm& form) { return {form.degree, form.steps, form.head, form.ignores_last}; }
SplineForm kept_form(const variable_list& saved, const std::vector<int64_t>& numbers) {
  return {numbers[0], numbers[1], numbers[2], numbers[3] != 0, saved[3], saved[4]};
}

class SplineVjpFunction : public torch::autograd::Function<SplineVjpFunction> {
 public:
  static variable_list forward(AutogradContext* ctx, const MaybeTensor&, const MaybeTensor&, const MaybeTensor&,
                               const MaybeTensor&, const SplineVjpArguments* a) {
    ctx->set_materialize_grads(false);
    ctx->save_for_backward(kept_tensors(a->form, a->dt, a->start_index, a->goal_index));
    Nine gradients = launch_spline_vjp(a->form, a->upstream, a->start_index, a->goal_index, a->dt, a->start_rows,
                                       a->goal_rows, a->points, a->needs, {});
    Tensor like;
    std::vector<int64_t> numbers = kept_numbers(a->form);
    for (const Tensor& gradient : a->upstream) {
      numbers.push_back(gradient.defined());
      if (gradient.defined()) like = gradient;
    }
    numbers.insert(numbers.end(), {like.size(0), a->points, like.size(2), a->goal_rows});
    ctx->saved_data["numbers"] = std::move(numbers);
    ctx->saved_data["dtype"] = static_cast<int64_t>(like.scalar_type());
    // Functions return defined tensors: what was not asked for is empty, and undefined again outside.
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
    const auto options = saved[0].options().dtype(static_cast<at::ScalarType>(ctx->saved_data["dtype"].toInt()));
    const int64_t batch = numbers[8], points = numbers[9], dof = numbers[10], goal_rows = numbers[11];
    SplineArguments a{kept_form(saved, numbers), given[0], {}, {}, saved[0]};
    if (!a.points.defined()) a.points = at::zeros({batch, points, dof}, options);
    for (size_t k = 0; k < 4; ++k) a.start.rows[k] = given[1 + k], a.goal.rows[k] = given[5 + k];
    if (any_defined(a.start.rows)) a.start.index = saved[1];
    if (goal_rows >= 0) {
      a.goal.index = saved[2];
      if (!a.goal.rows[0].defined()) a.goal.rows[0] = at::zeros({goal_rows, dof}, options);
    }
    Four outputs = differentiable_spline(a);
    for (size_t k = 0; k < 4; ++k) {
      if (numbers[4 + k] != 0) result[k] = std::move(outputs[k]);
    }
    return result;
  }
};

class SplineFunction : public torch::autograd::Function<SplineFunction> {
 public:
  // Backward calls operators that can be traced and takes what it needs from saved variables and saved_data.
  static constexpr bool is_traceable = true;

  static variable_list forward(AutogradContext* ctx, const Tensor&, const MaybeTensor&, const MaybeTensor&,
                               const MaybeTensor&, const MaybeTensor&, const MaybeTensor&, const MaybeTensor&,
                               const MaybeTensor&, const MaybeTensor&, const SplineArguments* a) {
    ctx->set_materialize_grads(false);
    ctx->save_for_backward(kept_tensors(a->form, a->dt, a->start.index, a->goal.index));
    std::vector<int64_t> numbers = kept_numbers(a->form);
    numbers.insert(numbers.end(), {a->points.size(1), rows_of(a->start.rows), rows_of(a->goal.rows)});
    for (const Tensor& tensor : a->tensors()) numbers.push_back(tensor.defined());
    ctx->saved_data["numbers"] = std::move(numbers);
    Four outputs = launch_spline_forward(a->form, a->points, a->start, a->goal, a->dt, {});
    return {std::move(outputs[0]), std::move(outputs[1]), std::move(outputs[2]), std::move(outputs[3])};
  }

  static variable_list backward(AutogradContext* ctx, const variable_list& upstream) {
    variable_list result(10);  // one for each argument of forward
    if (!any_defined(upstream)) return result;
    const variable_list saved = ctx->get_saved_variables();
    const std::vector<int64_t> numbers = ctx->saved_data["numbers"].toIntVector();
    SplineVjpArguments a{kept_form(saved, numbers),
                         {upstream[0], upstream[1], upstream[2], upstream[3]},
                         saved[1],
                         saved[2],
                         saved[0],
                         numbers[5],
                         numbers[6],
                         numbers[4],
                         {}};
    size_t edge = 0;  // only tensors that were given have one
    for (size_t k = 0; k < 9; ++k) a.needs[k] = numbers[7 + k] != 0 && ctx->needs_input_grad(edge++);
    Nine gradients = differentiable_spline_vjp(a);
    for (size_t k = 0; k < 9; ++k) result[k] = std::move(gradients[k]);
    return result;
  }
};

}  // namespace

void check(const SplineArguments& a) {
  TORCH_CHECK_TYPE(a.points.defined() && a.points.is_floating_point() && a.points.dim() == 3,
                   "control_points: expected a floating-point tensor [batch, points, dof]");
  TORCH_CHECK_TYPE(a.start.rows[0].defined(), "start.position: expected a tensor, got an undefined one");
  TORCH_CHECK_VALUE(a.goal.rows[0].defined() || !any_defined(a.goal.rows),
                    "goal.position: expected a tensor where a goal has anything else, got an undefined one");
  TORCH_CHECK_VALUE(a.goal.rows[0].defined() || !a.goal.index.defined(), "goal_index: expected none without a goal");
  for (const Tensor& tensor : a.tensors()) {
    if (!tensor.defined()) continue;
    TORCH_CHECK_VALUE(tensor.device().is_cpu(), "expected tensors on the CPU, got one on ", tensor.device());
    TORCH_CHECK_TYPE(tensor.scalar_type() == a.points.scalar_type(), "start and goal: expected the control points' dtype ",
                     a.points.scalar_type(), ", got ", tensor.scalar_type());
  }
}

Nine differentiable_spline_vjp(const SplineVjpArguments& a) {
  bool ordinary = !at::GradMode::is_enabled() && no_mode_is_active();
  for (const Tensor& gradient : a.upstream) {
    if (gradient.defined()) ordinary = ordinary && is_plain(gradient);
  }
  if (ordinary) {
    return launch_spline_vjp(a.form, a.upstream, a.start_index, a.goal_index, a.dt, a.start_rows, a.goal_rows, a.points,
                             a.needs, {});
  }
  if (general_spline_vjp != nullptr) return general_spline_vjp(a);
  const auto& g = a.upstream;
  variable_list results = SplineVjpFunction::apply(maybe(g[0]), maybe(g[1]), maybe(g[2]), maybe(g[3]), &a);
  Nine gradients;
  for (size_t k = 0; k < 9; ++k) {
    if (a.needs[k]) gradients[k] = std::move(results[k]);
  }
  return gradients;
}

void set_general_spline_vjp(GeneralSplineVjp vjp) { general_spline_vjp = vjp; }

Four differentiable_spline(const SplineArguments& a) {
  bool recorded = false;
  if (at::GradMode::is_enabled()) {
    for (const Tensor& tensor : a.tensors()) recorded = recorded || (tensor.defined() && tensor.requires_grad());
  }
  if (!recorded) return launch_spline_forward(a.form, a.points, a.start, a.goal, a.dt, {});
  const auto &s = a.start.rows, &g = a.goal.rows;
  variable_list outputs = SplineFunction::apply(a.points, maybe(s[0]), maybe(s[1]), maybe(s[2]), maybe(s[3]), maybe(g[0]),
                                                maybe(g[1]), maybe(g[2]), maybe(g[3]), &a);
  return {std::move(outputs[0]), std::move(outputs[1]), std::move(outputs[2]), std::move(outputs[3])};
}

}  // namespace traj_integrator
