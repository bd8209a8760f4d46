// Schemas and CPU kernels of the operators, and their shapes where there are no numbers (Meta).
#include "operators.h"

#include <ATen/core/dispatch/Dispatcher.h>
#include <ATen/ops/empty.h>
#include <torch/library.h>

#include "launch.h"
#include "problem.h"

namespace traj_integrator {
namespace {

at::Tensor value(const MaybeTensor& tensor) { return tensor.has_value() ? *tensor : at::Tensor(); }

StepOutputs step_cpu(int64_t map, const at::Tensor& action, const MaybeTensor& p0, const MaybeTensor& v0,
                     const MaybeTensor& a0, const MaybeTensor& j0, const MaybeTensor& start_index, const at::Tensor& dt,
                     bool) {
  const OptionalTensors start{value(p0), value(v0), value(a0), value(j0)};
  Outputs out = launch_forward(static_cast<ControlMap>(map), action, start, value(start_index), dt);
  return {std::move(out[0]), std::move(out[1]), std::move(out[2]), std::move(out[3])};
}

StepOutputs step_meta(int64_t map, const at::Tensor& action, const MaybeTensor&, const MaybeTensor&, const MaybeTensor&,
                      const MaybeTensor&, const MaybeTensor&, const at::Tensor&, bool) {
  const int64_t extra = row_of(static_cast<ControlMap>(map)).extra_horizon;
  const auto shape = std::array<c10::SymInt, 3>{action.sym_size(0), action.sym_size(1) + extra, action.sym_size(2)};
  const auto empty = [&] { return at::empty_symint(shape, action.options()); };
  return {empty(), empty(), empty(), empty()};
}

StepGradients step_vjp_cpu(int64_t map, const MaybeTensor& g_position, const MaybeTensor& g_velocity,
                                 const MaybeTensor& g_acceleration, const MaybeTensor& g_jerk,
                                 const MaybeTensor& start_index, const at::Tensor& dt, at::IntArrayRef start_rows,
                                 int64_t action_horizon, at::IntArrayRef needs, bool truncate_terminal_gradient) {
  TORCH_CHECK_VALUE(start_rows.size() == 4 && needs.size() == 5, "start_rows, needs: expected 4 and 5 numbers, got ",
                    start_rows.size(), " and ", needs.size());
  std::array<bool, 5> wanted;
  std::array<int64_t, 4> rows;
  for (size_t i = 0; i < 5; ++i) wanted[i] = needs[i] != 0;
  for (size_t i = 0; i < 4; ++i) rows[i] = start_rows[i];
  const OptionalTensors upstream{value(g_position), value(g_velocity), value(g_acceleration), value(g_jerk)};
  auto g = launch_vjp(static_cast<ControlMap>(map), upstream, value(start_index), dt, rows, action_horizon, wanted,
                            truncate_terminal_gradient);
  return {std::move(g[0]), std::move(g[1]), std::move(g[2]), std::move(g[3]), std::move(g[4])};
}

StepGradients step_vjp_meta(int64_t, const MaybeTensor& g_position, const MaybeTensor& g_velocity,
                                  const MaybeTensor& g_acceleration, const MaybeTensor& g_jerk, const MaybeTensor&,
                                  const at::Tensor&, at::IntArrayRef start_rows, int64_t action_horizon,
                                  at::IntArrayRef needs, bool) {
  at::Tensor like;
  for (const MaybeTensor* gradient : {&g_position, &g_velocity, &g_acceleration, &g_jerk}) {
    if (gradient->has_value()) like = **gradient;
  }
  const c10::SymInt batch = like.sym_size(0), dof = like.sym_size(2);
  const auto row = [&](size_t i) {
    if (needs[i + 1] == 0) return at::Tensor();
    return at::empty_symint(std::array<c10::SymInt, 2>{start_rows[i], dof}, like.options());
  };
  at::Tensor action;
  if (needs[0] != 0) {
    action = at::empty_symint(std::array<c10::SymInt, 3>{batch, action_horizon, dof}, like.options());
  }
  return {action, row(0), row(1), row(2), row(3)};
}

}  // namespace

StepOutputs call_step(int64_t map, const at::Tensor& action, const MaybeTensor& p0, const MaybeTensor& v0,
                      const MaybeTensor& a0, const MaybeTensor& j0, const MaybeTensor& start_index, const at::Tensor& dt,
                      bool truncate_terminal_gradient) {
  static const auto op = c10::Dispatcher::singleton()
                             .findSchemaOrThrow("traj_integrator_native::step", "")
                             .typed<decltype(call_step)>();
  return op.call(map, action, p0, v0, a0, j0, start_index, dt, truncate_terminal_gradient);
}

StepGradients call_step_vjp(int64_t map, const MaybeTensor& g_position, const MaybeTensor& g_velocity,
                                  const MaybeTensor& g_acceleration, const MaybeTensor& g_jerk,
                                  const MaybeTensor& start_index, const at::Tensor& dt, at::IntArrayRef start_rows,
                                  int64_t action_horizon, at::IntArrayRef needs, bool truncate_terminal_gradient) {
  static const auto op = c10::Dispatcher::singleton()
                             .findSchemaOrThrow("traj_integrator_native::step_vjp", "")
                             .typed<decltype(call_step_vjp)>();
  return op.call(map, g_position, g_velocity, g_acceleration, g_jerk, start_index, dt, start_rows, action_horizon, needs,
                 truncate_terminal_gradient);
}

TORCH_LIBRARY(traj_integrator_native, library) {
  library.def(
      "step(int map, Tensor action, Tensor? start_position, Tensor? start_velocity, Tensor? start_acceleration, "
      "Tensor? start_jerk, Tensor? start_index, Tensor dt, bool truncate_terminal_gradient) "
      "-> (Tensor, Tensor, Tensor, Tensor)");
  library.def(
      "step_vjp(int map, Tensor? grad_position, Tensor? grad_velocity, Tensor? grad_acceleration, "
      "Tensor? grad_jerk, Tensor? start_index, Tensor dt, int[] start_rows, int action_horizon, int[] needs, "
      "bool truncate_terminal_gradient) -> (Tensor, Tensor, Tensor, Tensor, Tensor)");
}

TORCH_LIBRARY_IMPL(traj_integrator_native, CPU, library) {
  library.impl("step", step_cpu);
  library.impl("step_vjp", step_vjp_cpu);
}

TORCH_LIBRARY_IMPL(traj_integrator_native, Meta, library) {
  library.impl("step", step_meta);
  library.impl("step_vjp", step_vjp_meta);
}

}  // namespace traj_integrator
