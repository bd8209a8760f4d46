// The module `_loops`: the maps on arrays that are borrowed from Python for one call, without torch. Autograd is
// Python's. Functions raise TypeError, ValueError or IndexError for arguments that do not fit, and have written nothing
// then.
#include <memory>

#include "instruction_set.h"
#include "python_results.h"

namespace traj_integrator {
namespace {

// forward(map, values, indices, dt, outputs) -> outputs that were None, made here
PyObject* py_forward(PyObject*, PyObject* const* args, Py_ssize_t count) {
  Call call;
  Arguments given;
  if (count != 5 || !given.take_inputs(args, call) || !given.take_outputs(args[4], call.outputs)) return unfit();
  return forward_results(call);
}

// vjp(map, upstream, indices, dt, truncate_terminal_gradient, has_goal, gradients) -> those that were made here
//
// Gradients are those of the values, each an array to write to, a number of rows, then it is made here, or None.
PyObject* py_vjp(PyObject*, PyObject* const* args, Py_ssize_t count) {
  Call call;
  Arguments given;
  if (count != 7 || !given.take_upstream(args, call) || Arguments::size_of(args[6]) > kValues) return unfit();
  call.truncate_terminal = args[4] == Py_True;
  call.has_goal = args[5] == Py_True;
  int64_t sizes[kValues];
  for (int k = 0; k < kValues; ++k) {
    PyObject* const object = Arguments::item(args[6], k);
    sizes[k] = PyLong_Check(object) ? PyLong_AsLongLong(object) : -1;
    if (!PyLong_Check(object) && !given.take(object, value_of(call, k), true)) return unfit();
  }
  Result results[kValues];
  return make_gradients(call, sizes, results) ? handed_over(results, kValues) : nullptr;
}

// dt_gradient(map, values, indices, dt, upstream, result)
PyObject* py_dt_gradient(PyObject*, PyObject* const* args, Py_ssize_t count) {
  Call call;
  Array result;
  Arguments given;
  if (count != 6 || !given.take_inputs(args, call) || !given.take_all(args[4], call.outputs, kOutputs) ||
      !given.take(args[5], result, true)) {
    return unfit();
  }
  if (!run(elements_of(call.outputs), [&](int threads) { dt_gradient(call, result, threads); })) return nullptr;
  Py_RETURN_NONE;
}

// quadratic_cost(map, values, indices, dt, terms, cost, grad_action, grad_ends)
//
// Terms have six for each output: weight, target, terminal weight, limit weight, lower and upper limit. Writes the cost `[B]`
// and, where they are given, gradients of the action, and of start and goal: eight `[B, D]` in double, not summed over a pool.
PyObject* py_quadratic_cost(PyObject*, PyObject* const* args, Py_ssize_t count) {
  CostCall call;
  Arguments given;
  if (count != 8 || !given.take_inputs(args, call.map) || !given.take_terms(args[4], call) ||
      !given.take(args[5], call.cost, true) || !given.take(args[6], call.grad_action, true) ||
      !given.take_all(args[7], call.grad_ends, kEnds, true)) {
    return unfit();
  }
  if (!run(call.map.action.size(), [&](int threads) { quadratic_cost(call, threads); })) return nullptr;
  Py_RETURN_NONE;
}

// spline_form(degree, steps, is_curobo) -> an object that replaces a map's number
PyObject* py_spline_form(PyObject*, PyObject* args) {
  long long degree = 0, steps = 0;
  int is_curobo = 0;
  if (PyArg_ParseTuple(args, "LLp", &degree, &steps, &is_curobo) == 0) return nullptr;
  try {
    auto form = std::make_unique<SplineForm>(degree, steps, is_curobo != 0);
    PyObject* const capsule = PyCapsule_New(form.get(), Arguments::kFormName, [](PyObject* owned) {
      delete static_cast<SplineForm*>(PyCapsule_GetPointer(owned, Arguments::kFormName));
    });
    if (capsule != nullptr) static_cast<void>(form.release());
    return capsule;
  } catch (const Misfit& misfit) {
    return raised(misfit);
  } catch (const std::bad_alloc&) {
    return PyErr_NoMemory();
  }
}

PyObject* py_instruction_set(PyObject*, PyObject*) { return PyUnicode_FromString(instruction_set_name()); }

PyMethodDef methods[] = {
    {"forward", as_method(&py_forward), METH_FASTCALL, "A map of actions, into its outputs."},
    {"vjp", as_method(&py_vjp), METH_FASTCALL, "Gradients of actions, start and goal from those of the outputs."},
    {"dt_gradient", as_method(&py_dt_gradient), METH_FASTCALL, "The gradient of dt."},
    {"quadratic_cost", as_method(&py_quadratic_cost), METH_FASTCALL, "The cost of trajectories and its gradients."},
    {"spline_form", &py_spline_form, METH_VARARGS, "A spline in place of the number of a map."},
    {"records", as_method(&py_records), METH_FASTCALL, "Whether autograd records what becomes of the arguments."},
    {"use", &py_use, METH_VARARGS, "Says what tensors are."},
    {"instruction_set", &py_instruction_set, METH_NOARGS, "baseline or avx2."},
    {nullptr, nullptr, 0, nullptr},
};

PyModuleDef definition = {PyModuleDef_HEAD_INIT, "_loops", "Compiled CPU kernels.", -1, methods, nullptr, nullptr, nullptr, nullptr};

}  // namespace
}  // namespace traj_integrator

PyMODINIT_FUNC PyInit__loops() {
  using namespace traj_integrator;
  PyObject* const module = PyModule_Create(&definition);
  const Object numbers(PyDict_New());
  if (module == nullptr || numbers.get() == nullptr) return nullptr;
  for (const ControlMapRow& row : kControlMaps) {
    const Object number(PyLong_FromLongLong(static_cast<long long>(row.map)));
    if (PyDict_SetItemString(numbers.get(), row.name, number.get()) != 0) return nullptr;
  }
  return PyModule_AddObjectRef(module, "map_numbers", numbers.get()) == 0 ? module : nullptr;
}
