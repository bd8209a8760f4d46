// Python bindings: the backend's launchers, and the fast path of the public functions.
#include <ATen/EmptyTensor.h>
#include <ATen/core/grad_mode.h>
#include <torch/csrc/utils/pybind.h>
#include <torch/version.h>

#include <algorithm>
#include <cmath>

#include "autograd.h"
#include "borrowed_calls.h"
#include "bspline_python.h"
#include "cost_call.h"
#include "instruction_set.h"
#include "kept_memory.h"
#include "interpreter_lock.h"
#include "python_arguments.h"

namespace traj_integrator {
namespace {

using at::Tensor;

PyTypeObject* trajectory_type = nullptr;  // the NamedTuple that `step` returns, owned

Outputs forward(int64_t map, const Tensor& action, const std::array<MaybeTensor, 4>& start, const MaybeTensor& start_index,
                const Tensor& dt, const std::optional<Outputs>& out) {
  pybind11::gil_scoped_release released;
  return launch_forward(static_cast<ControlMap>(map), action, values(start), value(start_index), dt, out ? &*out : nullptr);
}

std::array<MaybeTensor, 5> vjp(int64_t map, const std::array<MaybeTensor, 4>& upstream,
                                     const MaybeTensor& start_index, const Tensor& dt,
                                     const std::array<int64_t, 4>& start_rows, int64_t action_horizon,
                                     const std::array<bool, 5>& needs, bool truncate_terminal_gradient,
                                     const MaybeTensor& out) {
  pybind11::gil_scoped_release released;
  return maybe(launch_vjp(static_cast<ControlMap>(map), values(upstream), value(start_index), dt, start_rows,
                          action_horizon, needs, truncate_terminal_gradient, value(out)));
}

}  // namespace

bool unpack_dt(PyObject* object, bool per_trajectory, const Tensor& action, Tensor& dt) {
  if (PyFloat_CheckExact(object)) {
    const double seconds = PyFloat_AS_DOUBLE(object);
    if (!(seconds > 0 && std::isfinite(seconds))) return false;
    dt = Tensor(at::detail::empty_cpu({1, 1}, at::kDouble, false, std::nullopt));
    *dt.mutable_data_ptr<double>() = seconds;
    return true;
  }
  if (object == Py_None || !unpack_beside(action, object, dt) || dt.requires_grad()) return false;
  if (dt.scalar_type() != at::kDouble && dt.scalar_type() != at::kFloat) return false;
  if (dt.dim() == 1 && per_trajectory) {
    dt = dt.unsqueeze(1);
  } else if (dt.dim() < 2) {
    dt = dt.reshape({1, -1});
  }
  return dt.dim() == 2;
}

namespace {

// step(map, action, p0, v0, a0, j0, dt, start_index, dt_per_trajectory, truncate_terminal_gradient) -> Trajectory | None
//
// The public functions in one call: checks, autograd and loops without further Python code. Returns None if anything is
// out of the ordinary (wrong arguments, transforms, subclasses, a dt that requires grad): then the operator computes
// it.
PyObject* step(PyObject*, PyObject* const* args, Py_ssize_t count) {
  HANDLE_TH_ERRORS
  if (count != 10 || !no_mode_is_active()) Py_RETURN_NONE;
  const auto map = static_cast<ControlMap>(PyLong_AsLongLong(args[0]));
  Tensor action, start_index, dt;
  OptionalTensors start;
  if (!unpack_beside({}, args[1], action) || !unpack_beside(action, args[7], start_index)) Py_RETURN_NONE;
  for (size_t k = 0; k < 4; ++k) {
    if (!unpack_beside(action, args[2 + k], start[k])) Py_RETURN_NONE;
  }
  if (!action.defined() || !start[0].defined() || action.dim() != 3 || start[0].dim() != 2) Py_RETURN_NONE;
  for (const Tensor& rows : start) {
    if (rows.defined() && (rows.dim() != 2 || rows.size(0) != start[0].size(0))) Py_RETURN_NONE;
  }
  if (action.scalar_type() != at::kFloat && action.scalar_type() != at::kDouble) Py_RETURN_NONE;
  if (!unpack_dt(args[6], args[8] == Py_True, action, dt)) Py_RETURN_NONE;
  if (row_of(map).one_dt && dt.size(1) != 1) Py_RETURN_NONE;
  const bool truncate = args[9] == Py_True;

  Outputs outputs;
  try {
    without_interpreter_lock(action.numel(), [&] {
      outputs = differentiable_step(
          {map, std::move(action), std::move(start), std::move(start_index), std::move(dt), truncate});
    });
  } catch (const c10::Error&) {
    Py_RETURN_NONE;  // the general way raises it with the names of the Python arguments
  }
  return wrap_trajectory(std::move(outputs));
  END_HANDLE_TH_ERRORS
}

// dt_gradient(map, upstream, action, start, start_index, dt) -> Tensor | None
//
// The gradient of dt, float64; None if it is traced, transformed or differentiated, so that the composition has to
// compute it.
PyObject* dt_gradient(PyObject*, PyObject* const* args, Py_ssize_t count) {
  HANDLE_TH_ERRORS
  if (count != 6 || !no_mode_is_active()) Py_RETURN_NONE;
  Tensor action, start_index, dt;
  OptionalTensors upstream, start;
  bool plain = unpack(args[2], action) && unpack(args[4], start_index) && unpack(args[5], dt);
  plain = plain && unpack_all(args[1], upstream) && unpack_all(args[3], start);
  if (!plain || !action.defined() || !dt.defined() || dt.dim() != 2) Py_RETURN_NONE;
  if (action.scalar_type() != at::kFloat && action.scalar_type() != at::kDouble) Py_RETURN_NONE;
  if (at::GradMode::is_enabled()) {
    bool recorded = action.requires_grad() || dt.requires_grad();
    for (const OptionalTensors& tensors : {upstream, start}) {
      for (const Tensor& tensor : tensors) recorded = recorded || (tensor.defined() && tensor.requires_grad());
    }
    if (recorded) Py_RETURN_NONE;
  }
  Tensor gradient;
  const auto map = static_cast<ControlMap>(PyLong_AsLongLong(args[0]));
  without_interpreter_lock(action.numel(), [&] {
    gradient = launch_dt_gradient(map, upstream, action, start, start_index, dt);
  });
  return THPVariable_Wrap(std::move(gradient));
  END_HANDLE_TH_ERRORS
}

PyObject* python_vjp = nullptr;  // owned

// The operators' vjp in Python: (map, upstream, start_index, dt, start_rows, action_horizon, needs, truncate) -> gradients.
Gradients vjp_in_python(const VjpArguments& a) {
  namespace py = pybind11;
  const py::gil_scoped_acquire lock;
  const int64_t rows = *std::max_element(a.start_rows.begin(), a.start_rows.end());
  const py::object found = py::reinterpret_borrow<py::object>(python_vjp)(
      static_cast<int64_t>(a.map), maybe(a.upstream), maybe(a.start_index), a.dt, rows, a.action_horizon, a.needs,
      a.truncate_terminal_gradient);
  Gradients gradients;
  size_t k = 0;
  for (const py::handle gradient : found) {
    if (!gradient.is_none()) gradients[k] = gradient.cast<Tensor>();
    ++k;
  }
  return gradients;
}

}  // namespace

PyObject* wrap_trajectory(Outputs&& outputs) {
  THPObjectPtr tuple(PyTuple_New(4));
  if (!tuple) return nullptr;
  for (size_t k = 0; k < 4; ++k) {
    PyObject* wrapped = THPVariable_Wrap(std::move(outputs[k]));
    if (wrapped == nullptr) return nullptr;
    PyTuple_SET_ITEM(tuple.get(), k, wrapped);
  }
  if (trajectory_type == nullptr) return tuple.release();
  THPObjectPtr packed(PyTuple_Pack(1, tuple.get()));
  return packed ? PyTuple_Type.tp_new(trajectory_type, packed, nullptr) : nullptr;
}

namespace {

template <class Function>
PyCFunction as_method(Function* function) {
  return reinterpret_cast<PyCFunction>(reinterpret_cast<void*>(function));
}

PyMethodDef fast_methods[] = {
    {"step", as_method(&step), METH_FASTCALL,
     "The public functions in one call; None if the operator has to compute it."},
    {"step_with_buffers", as_method(&step_with_buffers), METH_FASTCALL,
     "A step into the caller's buffers in one call; None if the operator has to compute it."},
    {"spline_step", as_method(&spline_step), METH_FASTCALL,
     "Splines in one call; None if the operator has to compute it."},
    {"dt_gradient", as_method(&dt_gradient), METH_FASTCALL,
     "The gradient of dt; None if the composition has to compute it."},
    {"step_into", as_method(&step_into), METH_FASTCALL,
     "A map on arrays borrowed from Python, into another; False, having done nothing, where one does not suit."},
    {"vjp_into", as_method(&vjp_into), METH_FASTCALL, "The same for its vjp."},
    {"quadratic_cost_into", as_method(&quadratic_cost_into), METH_FASTCALL,
     "The quadratic cost of trajectories and its gradients on borrowed buffers."},
};

}  // namespace
}  // namespace traj_integrator

PYBIND11_MODULE(TORCH_EXTENSION_NAME, module) {
  using namespace traj_integrator;
  namespace py = pybind11;
  module.doc() = "Compiled CPU kernels of traj_integrator_ros.kernels.";
  module.def("forward", &forward, py::arg("map"), py::arg("action"), py::arg("start"), py::arg("start_index"),
             py::arg("dt"), py::arg("out") = py::none());
  module.def("vjp", &vjp, py::arg("map"), py::arg("upstream"), py::arg("start_index"), py::arg("dt"),
             py::arg("start_rows"), py::arg("action_horizon"), py::arg("needs"),
             py::arg("truncate_terminal_gradient") = false, py::arg("out") = py::none());
  add_splines(module);
  module.attr("torch_version") = TORCH_VERSION;
  py::dict numbers;
  for (const ControlMapRow& row : kControlMaps) numbers[row.name] = static_cast<int64_t>(row.map);
  module.attr("map_numbers") = numbers;
  module.def("instruction_set", [] { return std::string(instruction_set_name()); });
  module.def("return_as", [](const py::type& type) {
    trajectory_type = reinterpret_cast<PyTypeObject*>(type.inc_ref().ptr());
  }, "Sets the NamedTuple of four that `step` returns.");
  module.def("set_general_vjp", [](const py::object& vjp) {
    python_vjp = vjp.inc_ref().ptr();
    set_general_vjp(&vjp_in_python);
  }, "Sets the function that computes gradients that are differentiated again, batched or traced.");
  module.def("kept_bytes", &kept_bytes);
  module.def("release_kept_memory", &release_kept_memory);
  for (PyMethodDef& method : fast_methods) {
    PyObject* function = PyCFunction_NewEx(&method, nullptr, nullptr);
    if (function == nullptr) throw py::error_already_set();
    module.add_object(method.ml_name, function);
  }
}
