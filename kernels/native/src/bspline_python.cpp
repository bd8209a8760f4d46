#include "bspline_python.h"

#include <torch/csrc/Exceptions.h>

#include <optional>

#include "bspline_launch.h"
#include "python_arguments.h"
#include "spline_autograd.h"

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

PyObject* python_vjp = nullptr;  // owned

// The operators' vjp in Python: (upstream, start_index, goal_index, dt, start_rows, goal_rows, points, needs, degree, steps,
// layout) -> gradients.
std::array<Tensor, 9> vjp_in_python(const SplineVjpArguments& a) {
  namespace py = pybind11;
  const py::gil_scoped_acquire lock;
  const auto maybe_one = [](const Tensor& tensor) { return tensor.defined() ? MaybeTensor(tensor) : std::nullopt; };
  const py::object found = py::reinterpret_borrow<py::object>(python_vjp)(
      maybe(a.upstream), maybe_one(a.start_index), maybe_one(a.goal_index), a.dt, a.start_rows, a.goal_rows, a.points,
      a.needs, a.form.degree, a.form.steps, a.form.ignores_last ? "curobo" : "tight");
  std::array<Tensor, 9> gradients;
  size_t k = 0;
  for (const py::handle gradient : found) {
    if (!gradient.is_none()) gradients[k] = gradient.cast<Tensor>();
    ++k;
  }
  return gradients;
}

// Rows of start or goal; false unless all that are given have the same number of rows, so that none has to be expanded.
bool unpack_rows(PyObject* tuple, std::array<Tensor, 4>& rows) {
  if (!unpack_all(tuple, rows)) return false;
  for (const Tensor& each : rows) {
    if (each.defined() && (!rows[0].defined() || each.dim() != 2 || each.size(0) != rows[0].size(0))) return false;
  }
  return true;
}

}  // namespace

PyObject* spline_step(PyObject*, PyObject* const* args, Py_ssize_t count) {
  HANDLE_TH_ERRORS
  if (count != 8 || !no_mode_is_active()) Py_RETURN_NONE;
  SplineArguments arguments;
  if (!unpack(args[1], arguments.points) || !unpack_rows(args[2], arguments.start.rows) ||
      !unpack_rows(args[3], arguments.goal.rows) || !unpack(args[4], arguments.start.index) ||
      !unpack(args[5], arguments.goal.index) || !unpack_dt(args[6], args[7] == Py_True, arguments.points, arguments.dt)) {
    Py_RETURN_NONE;
  }
  const Tensor& points = arguments.points;
  if (!points.defined() || points.dim() != 3 || arguments.dt.size(1) != 1) Py_RETURN_NONE;
  if (points.scalar_type() != at::kFloat && points.scalar_type() != at::kDouble) Py_RETURN_NONE;
  arguments.form = pybind11::handle(args[0]).cast<SplineForm>();
  Outputs outputs;
  try {
    std::optional<pybind11::gil_scoped_release> released;
    if (points.numel() >= kReleaseElements) released.emplace();
    check(arguments);
    outputs = differentiable_spline(arguments);
  } catch (const c10::Error&) {
    Py_RETURN_NONE;  // the general way raises it with the names of the Python arguments
  }
  return wrap_trajectory(std::move(outputs));
  END_HANDLE_TH_ERRORS
}

void add_splines(pybind11::module_& module) {
  pybind11::class_<SplineForm>(module, "SplineForm")
      .def(pybind11::init([](int64_t degree, int64_t steps, int64_t head, bool ignores_last, const Tensor& weights,
                             const Tensor& state_weights) {
        return SplineForm{degree, steps, head, ignores_last, weights, state_weights};
      }));
  module.def("spline_forward", &forward);
  module.def("spline_vjp", &vjp);
  module.def("spline_dt_gradient", &dt_gradient);
  module.def("set_general_spline_vjp", [](const pybind11::object& vjp) {
    python_vjp = vjp.inc_ref().ptr();
    set_general_spline_vjp(&vjp_in_python);
  }, "What computes gradients of splines that are differentiated again, batched or traced.");
}

}  // namespace traj_integrator
