#include "bspline_python.h"

#include <torch/csrc/Exceptions.h>

#include "bspline_launch.h"
#include "interpreter_lock.h"
#include "optional_tensors.h"
#include "python_arguments.h"
#include "spline_autograd.h"

namespace traj_integrator {
namespace {

using at::Tensor;
using MaybeFour = std::array<MaybeTensor, 4>;
using MaybeNine = std::array<MaybeTensor, 9>;

MaybeFour spline_forward(const SplineForm& form, const Tensor& action, const MaybeFour& start, const MaybeTensor& start_index,
             const MaybeFour& goal, const MaybeTensor& goal_index, const Tensor& dt, const std::optional<MaybeFour>& out) {
  pybind11::gil_scoped_release released;
  return maybe(launch_spline_forward(form, action, {values(start), value(start_index)},
                                     {values(goal), value(goal_index)}, dt, values(out.value_or(MaybeFour{}))));
}

MaybeNine spline_vjp(const SplineForm& form, const MaybeFour& upstream, const MaybeTensor& start_index, const MaybeTensor& goal_index,
         const Tensor& dt, int64_t start_rows, int64_t goal_rows, int64_t points, const std::array<bool, 9>& needs,
         const std::optional<MaybeNine>& out) {
  pybind11::gil_scoped_release released;
  return maybe(launch_spline_vjp(form, values(upstream), value(start_index), value(goal_index), dt, start_rows, goal_rows,
                                 points, needs, values(out.value_or(MaybeNine{}))));
}

Tensor spline_dt_gradient(const SplineForm& form, const MaybeFour& upstream, const Tensor& action, const MaybeFour& start,
                   const MaybeTensor& start_index, const MaybeFour& goal, const MaybeTensor& goal_index, const Tensor& dt) {
  pybind11::gil_scoped_release released;
  return launch_spline_dt_gradient(form, values(upstream), action, {values(start), value(start_index)},
                                   {values(goal), value(goal_index)}, dt);
}

PyObject* python_spline_vjp = nullptr;  // owned

// The operators' vjp in Python: (upstream, start_index, goal_index, dt, start_rows, goal_rows, points, needs, degree, steps,
// layout) -> gradients.
std::array<Tensor, 9> spline_vjp_in_python(const SplineVjpArguments& a) {
  namespace py = pybind11;
  const py::gil_scoped_acquire lock;
  const py::object found = py::reinterpret_borrow<py::object>(python_spline_vjp)(
      maybe(a.upstream), maybe(a.start_index), maybe(a.goal_index), a.dt, a.start_rows, a.goal_rows, a.points,
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
    without_interpreter_lock(points.numel(), [&] {
      check(arguments);
      outputs = differentiable_spline(arguments);
    });
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
  module.def("spline_forward", &spline_forward);
  module.def("spline_vjp", &spline_vjp);
  module.def("spline_dt_gradient", &spline_dt_gradient);
  module.def("set_general_spline_vjp", [](const pybind11::object& vjp) {
    python_spline_vjp = vjp.inc_ref().ptr();
    set_general_spline_vjp(&spline_vjp_in_python);
  }, "What computes gradients of splines that are differentiated again, batched or traced.");
}

}  // namespace traj_integrator
