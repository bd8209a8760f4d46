#include "bspline_python.h"

#include <optional>

#include "bspline_launch.h"

namespace traj_integrator {
namespace {

using at::Tensor;
using MaybeTensor = std::optional<Tensor>;
using Four = std::array<MaybeTensor, 4>;
using Nine = std::array<MaybeTensor, 9>;

Tensor value(const MaybeTensor& tensor) { return tensor.has_value() ? *tensor : Tensor(); }

template <size_t N>
std::array<Tensor, N> values(const std::array<MaybeTensor, N>& tensors) {
  std::array<Tensor, N> result;
  for (size_t k = 0; k < N; ++k) result[k] = value(tensors[k]);
  return result;
}

template <size_t N>
std::array<MaybeTensor, N> maybe(const std::array<Tensor, N>& tensors) {
  std::array<MaybeTensor, N> result;
  for (size_t k = 0; k < N; ++k) {
    if (tensors[k].defined()) result[k] = tensors[k];
  }
  return result;
}

Four forward(const SplineForm& form, const Tensor& action, const Four& start, const MaybeTensor& start_index,
             const Four& goal, const MaybeTensor& goal_index, const Tensor& dt, const std::optional<Four>& out) {
  pybind11::gil_scoped_release released;
  return maybe(launch_spline_forward(form, action, {values(start), value(start_index)},
                                     {values(goal), value(goal_index)}, dt, values(out.value_or(Four{}))));
}

Nine vjp(const SplineForm& form, const Four& upstream, const MaybeTensor& start_index, const MaybeTensor& goal_index,
         const Tensor& dt, int64_t start_rows, int64_t goal_rows, int64_t points, const std::array<bool, 9>& needs,
         const std::optional<Nine>& out) {
  pybind11::gil_scoped_release released;
  return maybe(launch_spline_vjp(form, values(upstream), value(start_index), value(goal_index), dt, start_rows, goal_rows,
                                 points, needs, values(out.value_or(Nine{}))));
}

Tensor dt_gradient(const SplineForm& form, const Four& upstream, const Tensor& action, const Four& start,
                   const MaybeTensor& start_index, const Four& goal, const MaybeTensor& goal_index, const Tensor& dt) {
  pybind11::gil_scoped_release released;
  return launch_spline_dt_gradient(form, values(upstream), action, {values(start), value(start_index)},
                                   {values(goal), value(goal_index)}, dt);
}

}  // namespace

void add_splines(pybind11::module_& module) {
  pybind11::class_<SplineForm>(module, "SplineForm")
      .def(pybind11::init([](int64_t degree, int64_t steps, int64_t head, bool ignores_last, const Tensor& weights,
                             const Tensor& state_weights) {
        return SplineForm{degree, steps, head, ignores_last, weights, state_weights};
      }));
  module.def("spline_forward", &forward);
  module.def("spline_vjp", &vjp);
  module.def("spline_dt_gradient", &dt_gradient);
}

}  // namespace traj_integrator
