// The module `_loops`: the maps on arrays that are borrowed from Python for one call, without torch. Autograd is Python's.
#include <algorithm>
#include <memory>

#include "instruction_set.h"
#include "kept_memory.h"
#include "python_call.h"
#include "quadratic_cost.h"
#include "results.h"

namespace traj_integrator {
namespace {

int64_t elements_of(const Array (&outputs)[4]) {
  int64_t most = 0;
  for (const Array& output : outputs) most = std::max(most, output.given() ? output.size() : 0);
  return most;
}

// What of the arrays was made here, as tensors; None in place of the others, and before them. A tuple, or null with an error.
PyObject* handed_over(Result* results, Py_ssize_t used, Py_ssize_t before = 0) {
  PyObject* const tuple = PyTuple_New(before + used);
  for (Py_ssize_t k = -before; tuple != nullptr && k < used; ++k) {
    PyObject* item = Py_None;
    if (k >= 0 && results[k].is_made()) {
      item = results[k].hand_over(torch.from_dlpack, torch.import_object);
    } else {
      Py_INCREF(item);
    }
    if (item == nullptr) {
      Py_DECREF(tuple);
      return nullptr;
    }
    PyTuple_SetItem(tuple, before + k, item);
  }
  return tuple;
}

}  // namespace

PyObject* forward_results(Call& call) {
  call.has_new_outputs = !call.outputs[0].given();
  Result results[4];
  const bool done = run(call.action.size(), [&](int threads) {
    expect_action(call.action);
    const auto& shape = call.action.shape;
    for (int k = 0; call.has_new_outputs && k < 4; ++k) {
      results[k].make(call.action.type, {shape[0], call.rows(shape[1]), shape[2]}, call.outputs[k],
                      {&call.action, &call.outputs[0], &call.outputs[1], &call.outputs[2]});
    }
    forward(call, threads);
  });
  return done ? handed_over(results, 4) : nullptr;
}

PyObject* vjp_results(Call& call, const int64_t (&sizes)[9], Py_ssize_t used, Py_ssize_t before) {
  Result results[9];
  const bool done = run(elements_of(call.outputs), [&](int threads) {
    const Array* const like = std::find_if(call.outputs, call.outputs + 4, [](const Array& a) { return a.given(); });
    for (int k = 0; like != call.outputs + 4 && like->is_real() && like->dims == 3 && k < 9; ++k) {
      if (sizes[k] < 0) continue;
      const int64_t batch = like->shape[0], dof = like->shape[2];
      if (k == 0) {
        results[k].make(like->type, {batch, sizes[k], dof}, call.action,
                        {&call.outputs[0], &call.outputs[1], &call.outputs[2], &call.outputs[3]});
      } else {
        results[k].make(like->type, {sizes[k], dof}, k < 5 ? call.start.rows[k - 1] : call.goal.rows[k - 5]);
      }
    }
    vjp(call, threads);
  });
  return done ? handed_over(results, used, before) : nullptr;
}

namespace {

// forward(map, action, start, start_index, goal, goal_index, dt, outputs) -> outputs that were None, made here
PyObject* py_forward(PyObject*, PyObject* const* args, Py_ssize_t count) {
  Call call;
  Arguments given;
  if (count != 8 || !given.take_map(args[0], call) || !given.take(args[1], call.action) ||
      !given.take_all(args[2], call.start.rows, 4) || !given.take(args[3], call.start.index) ||
      !given.take_all(args[4], call.goal.rows, 4) || !given.take(args[5], call.goal.index) ||
      !given.take_dt(args[6], call.dt) || !given.take_outputs(args[7], call.outputs)) {
    return unfit();
  }
  call.has_goal = args[4] != Py_None;
  return forward_results(call);
}

// A result that is to be made, if the object is a number: the size that is not known otherwise.
bool is_wanted(PyObject* object, int64_t& size) {
  if (!PyLong_Check(object)) return false;
  size = PyLong_AsLongLong(object);
  return true;
}

// vjp(map, upstream, start_index, goal_index, dt, truncate_terminal_gradient, action, start, goal) -> nine gradients
//
// Each of action, start and goal is an array to write to, a number of rows, then it is made here, or None. Without a goal,
// `goal` is None.
PyObject* py_vjp(PyObject*, PyObject* const* args, Py_ssize_t count) {
  Call call;
  Arguments given;
  if (count != 9 || !given.take_map(args[0], call) || !given.take_all(args[1], call.outputs, 4) ||
      !given.take(args[2], call.start.index) || !given.take(args[3], call.goal.index) || !given.take_dt(args[4], call.dt)) {
    return unfit();
  }
  call.truncate_terminal = args[5] == Py_True;
  call.has_goal = args[8] != Py_None;
  constexpr int kResults = 9;
  Array* arrays[kResults] = {&call.action};
  PyObject* objects[kResults] = {args[6]};
  for (int k = 0; k < 4; ++k) arrays[1 + k] = &call.start.rows[k], arrays[5 + k] = &call.goal.rows[k];
  for (int end = 0; end < 2; ++end) {
    PyObject* const rows = args[7 + end];
    const Py_ssize_t size = rows == Py_None ? 0 : PyTuple_Size(rows);
    if (size < 0 || size > 4) {
      PyErr_Clear();
      return unfit();
    }
    for (int k = 0; k < 4; ++k) objects[1 + 4 * end + k] = k < size ? PyTuple_GetItem(rows, k) : Py_None;
  }
  int64_t sizes[kResults] = {};
  for (int k = 0; k < kResults; ++k) {
    if (is_wanted(objects[k], sizes[k])) continue;
    sizes[k] = -1;
    if (!given.take(objects[k], *arrays[k], true)) return unfit();
  }
  return vjp_results(call, sizes, kResults, 0);
}

// dt_gradient(map, upstream, action, start, start_index, goal, goal_index, dt, result)
PyObject* py_dt_gradient(PyObject*, PyObject* const* args, Py_ssize_t count) {
  Call call;
  Array result;
  Arguments given;
  if (count != 9 || !given.take_map(args[0], call) || !given.take_all(args[1], call.outputs, 4) ||
      !given.take(args[2], call.action) || !given.take_all(args[3], call.start.rows, 4) ||
      !given.take(args[4], call.start.index) || !given.take_all(args[5], call.goal.rows, 4) ||
      !given.take(args[6], call.goal.index) || !given.take(args[7], call.dt) || !given.take(args[8], result, true)) {
    return unfit();
  }
  call.has_goal = args[5] != Py_None;
  if (!run(elements_of(call.outputs), [&](int threads) { dt_gradient(call, result, threads); })) return nullptr;
  Py_RETURN_NONE;
}

// quadratic_cost(map, start, start_index, goal, goal_index, action, dt, terms, cost, grad_action, grad_ends)
PyObject* py_quadratic_cost(PyObject*, PyObject* const* args, Py_ssize_t count) {
  CostCall call;
  Call& map = call.map;
  Arguments given;
  if (count != 11 || !given.take_map(args[0], map) || !given.take_all(args[1], map.start.rows, 4) ||
      !given.take(args[2], map.start.index) || !given.take_all(args[3], map.goal.rows, 4) ||
      !given.take(args[4], map.goal.index) || !given.take(args[5], map.action) || !given.take_dt(args[6], map.dt) ||
      !given.take_all(args[7], call.terms[0], 4 * CostCall::kTermFields) || !given.take(args[8], call.cost, true) ||
      !given.take(args[9], call.grad_action, true) || !given.take_all(args[10], call.grad_ends, 8, true)) {
    return unfit();
  }
  for (const Array& rows : map.goal.rows) map.has_goal = map.has_goal || rows.given();
  if (!run(map.action.size(), [&](int threads) { quadratic_cost(call, threads); })) return nullptr;
  Py_RETURN_NONE;
}

// spline_form(degree, steps, is_curobo) -> what stands for a map
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
PyObject* py_kept_bytes(PyObject*, PyObject*) { return PyLong_FromSize_t(kept_bytes()); }
PyObject* py_release_kept_memory(PyObject*, PyObject*) {
  release_kept_memory();
  Py_RETURN_NONE;
}

PyMethodDef methods[] = {
    {"forward", as_method(&py_forward), METH_FASTCALL, "A map of actions, into its outputs."},
    {"vjp", as_method(&py_vjp), METH_FASTCALL, "Gradients of actions, start and goal from those of the outputs."},
    {"dt_gradient", as_method(&py_dt_gradient), METH_FASTCALL, "The gradient of dt."},
    {"quadratic_cost", as_method(&py_quadratic_cost), METH_FASTCALL, "The cost of trajectories and its gradients."},
    {"spline_form", &py_spline_form, METH_VARARGS, "A spline in place of the number of a map."},
    {"step", as_method(&py_step), METH_FASTCALL, "forward, through autograd where it records it."},
    {"record", as_method(&py_record), METH_FASTCALL, "forward, as a node of autograd."},
    {"backward", as_method(&py_backward), METH_FASTCALL, "vjp, as a node of autograd."},
    {"use", as_method(&py_use), METH_FASTCALL, "Says what tensors are."},
    {"instruction_set", &py_instruction_set, METH_NOARGS, "baseline, avx2 or avx512."},
    {"kept_bytes", &py_kept_bytes, METH_NOARGS, "Bytes of memory that are kept for results."},
    {"release_kept_memory", &py_release_kept_memory, METH_NOARGS, "Releases them."},
    {nullptr, nullptr, 0, nullptr},
};

PyModuleDef definition = {PyModuleDef_HEAD_INIT, "_loops", "Compiled CPU kernels.", -1, methods, nullptr, nullptr, nullptr, nullptr};

}  // namespace
}  // namespace traj_integrator

PyMODINIT_FUNC PyInit__loops() {
  using namespace traj_integrator;
  PyObject* const module = PyModule_Create(&definition);
  PyObject* const numbers = PyDict_New();
  if (module == nullptr || numbers == nullptr) return nullptr;
  for (const ControlMapRow& row : kControlMaps) {
    const Object number(PyLong_FromLongLong(static_cast<long long>(row.map)));
    if (PyDict_SetItemString(numbers, row.name, number.get()) != 0) return nullptr;
  }
  if (PyModule_AddObjectRef(module, "map_numbers", numbers) != 0) return nullptr;
  Py_DECREF(numbers);
  return module;
}
