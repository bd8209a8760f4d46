// The module `_loops`: the maps on arrays that are borrowed from Python for one call, without torch. Autograd is Python's.
//
// Functions raise TypeError, ValueError or IndexError where arguments do not fit, and have written nothing then.
#include <algorithm>
#include <memory>

#include "instruction_set.h"
#include "python_call.h"

namespace traj_integrator {
namespace {

int64_t elements_of(const Array (&outputs)[kOutputs]) {
  int64_t most = 0;
  for (const Array& output : outputs) most = std::max(most, output.given() ? output.size() : 0);
  return most;
}

// What of the arrays was made here, as tensors; None in place of the others, and before them. A tuple, or null with an error.
PyObject* handed_over(Result* results, Py_ssize_t count, Py_ssize_t before = 0) {
  PyObject* const tuple = PyTuple_New(before + count);
  for (Py_ssize_t k = -before; tuple != nullptr && k < count; ++k) {
    PyObject* const item = k >= 0 && results[k].is_made() ? results[k].hand_over() : Py_NewRef(Py_None);
    if (item == nullptr) {
      Py_DECREF(tuple);
      return nullptr;
    }
    PyTuple_SetItem(tuple, before + k, item);
  }
  return tuple;
}

// The outputs, which are made unless the first is given, then None.
PyObject* forward_results(Call& call) {
  call.has_new_outputs = !call.outputs[0].given();
  Result results[kOutputs];
  const bool done = run(call.action.size(), [&](int threads) {
    expect_action(call.action);
    const auto& shape = call.action.shape;
    for (int k = 0; call.has_new_outputs && k < kOutputs; ++k) {
      results[k].make(call.action.type, {shape[0], call.rows(shape[1]), shape[2]}, call.outputs[k],
                      {&call.action, &call.outputs[0], &call.outputs[1], &call.outputs[2]});
    }
    forward(call, threads);
  });
  return done ? handed_over(results, kOutputs) : nullptr;
}

// forward(map, action, start, start_index, goal, goal_index, dt, outputs) -> outputs that were None, made here
PyObject* py_forward(PyObject*, PyObject* const* args, Py_ssize_t count) {
  Call call;
  Arguments given;
  if (count != 8 || !given.take_inputs(args, call) || !given.take_outputs(args[7], call.outputs)) return unfit();
  return forward_results(call);
}

constexpr int kResults = 1 + kEnds;  // of a vjp: gradients of action, start and goal
Array& result_of(Call& call, int k) { return k == 0 ? call.action : call.ends[k - 1]; }

// Makes the gradients with as many rows as `sizes` says, where that is not negative; false: an error is set.
bool make_gradients(Call& call, const int64_t (&sizes)[kResults], Result* results) {
  return run(elements_of(call.outputs), [&](int threads) {
    const Array* const like = std::find_if(call.outputs, call.outputs + kOutputs, [](const Array& a) { return a.given(); });
    const bool fits = like != call.outputs + kOutputs && like->is_real() && like->dims == 3;  // else `vjp` says what is wrong
    for (int k = 0; fits && k < kResults; ++k) {
      if (sizes[k] < 0) continue;
      const int64_t batch = like->shape[0], dof = like->shape[2];
      if (k == 0) {
        results[k].make(like->type, {batch, sizes[k], dof}, call.action,
                        {&call.outputs[0], &call.outputs[1], &call.outputs[2], &call.outputs[3]});
      } else {
        results[k].make(like->type, {sizes[k], dof}, result_of(call, k));
      }
    }
    vjp(call, threads);
  });
}

// Makes the gradient of dt, in the shape and the type in which it was given; false: an error is set.
bool make_dt_gradient(const Call& call, const Array& dt, Result& result) {
  std::vector<double> found(static_cast<size_t>(call.dt.size()));
  const Array exact{found.data(), 'd', 2, {call.dt.shape[0], call.dt.shape[1]}};
  return run(elements_of(call.outputs), [&](int threads) {
    dt_gradient(call, exact, threads);
    Array made;
    switch (dt.dims) {
      case 0: result.make(dt.type, {}, made); break;
      case 1: result.make(dt.type, {dt.shape[0]}, made); break;
      default: result.make(dt.type, {dt.shape[0], dt.shape[1]}, made);
    }
    if (dt.type == 'f') {
      std::transform(found.begin(), found.end(), made.as<float>(), [](double value) { return static_cast<float>(value); });
    } else {
      std::copy(found.begin(), found.end(), made.as<double>());
    }
  });
}

// vjp(map, upstream, start_index, goal_index, dt, truncate_terminal_gradient, action, start, goal) -> nine gradients
//
// Each of action, start and goal is an array to write to, a number of rows, then it is made here, or None. Without a goal,
// `goal` is None.
PyObject* py_vjp(PyObject*, PyObject* const* args, Py_ssize_t count) {
  Call call;
  Arguments given;
  if (count != 9 || !given.take_upstream(args, call)) return unfit();
  call.truncate_terminal = args[5] == Py_True;
  call.has_goal = args[8] != Py_None;
  int64_t sizes[kResults];
  for (int k = 0; k < kResults; ++k) {
    PyObject* const rows = k == 0 ? Py_None : args[7 + (k - 1) / kStartRows];
    const Py_ssize_t size = Arguments::size_of(rows), place = (k - 1) % kStartRows;
    if (size < 0 || size > kStartRows) return unfit();
    PyObject* const object = k == 0 ? args[6] : place < size ? Arguments::item(rows, place) : Py_None;
    sizes[k] = PyLong_Check(object) ? PyLong_AsLongLong(object) : -1;
    if (!PyLong_Check(object) && !given.take(object, result_of(call, k), true)) return unfit();
  }
  Result results[kResults];
  return make_gradients(call, sizes, results) ? handed_over(results, kResults) : nullptr;
}

// dt_gradient(map, action, start, start_index, goal, goal_index, dt, upstream, result)
PyObject* py_dt_gradient(PyObject*, PyObject* const* args, Py_ssize_t count) {
  Call call;
  Array result;
  Arguments given;
  if (count != 9 || !given.take_inputs(args, call) || !given.take_all(args[7], call.outputs, kOutputs) ||
      !given.take(args[8], result, true)) {
    return unfit();
  }
  if (!run(elements_of(call.outputs), [&](int threads) { dt_gradient(call, result, threads); })) return nullptr;
  Py_RETURN_NONE;
}

// quadratic_cost(map, action, start, start_index, goal, goal_index, dt, terms, cost, grad_action, grad_ends)
PyObject* py_quadratic_cost(PyObject*, PyObject* const* args, Py_ssize_t count) {
  CostCall call;
  Arguments given;
  if (count != 11 || !given.take_inputs(args, call.map) ||
      !given.take_all(args[7], call.terms[0], kOutputs * CostCall::kFields) || !given.take(args[8], call.cost, true) ||
      !given.take(args[9], call.grad_action, true) || !given.take_all(args[10], call.grad_ends, kEnds, true)) {
    return unfit();
  }
  if (!run(call.map.action.size(), [&](int threads) { quadratic_cost(call, threads); })) return nullptr;
  Py_RETURN_NONE;
}

// None where arguments do not fit: the general way says what is wrong.
PyObject* none_if_unfit() {
  for (PyObject* const error : {PyExc_TypeError, PyExc_ValueError, PyExc_IndexError}) {
    if (PyErr_ExceptionMatches(error)) PyErr_Clear();
  }
  return PyErr_Occurred() == nullptr ? Py_NewRef(Py_None) : nullptr;
}

// A named tuple of that type; null with a Python error.
PyObject* as_type(PyObject* type, PyObject* outputs) {
  static const auto make = reinterpret_cast<newfunc>(PyType_GetSlot(&PyTuple_Type, Py_tp_new));  // `type(...)` takes longer
  const Object arguments(PyTuple_Pack(1, outputs));
  return arguments.get() == nullptr ? PyErr_NoMemory() : make(reinterpret_cast<PyTypeObject*>(type), arguments.get(), nullptr);
}

// The tensors of a call as `apply` takes them, `apply(bundle, action, *rows, dt)`: what needs no gradient is not shown, since
// autograd takes its time for each tensor.
class Shown {
 public:
  // False, without a Python error, where it is neither a tensor nor None.
  bool add(PyObject* object) {
    if (object != Py_None && !is_tensor(object)) return false;
    const bool is_needed = are_recorded_ && object != Py_None && requires_grad(object);
    tensors_[count_] = is_needed || count_ == 1 ? object : Py_None;
    ++count_;
    if (is_needed) needed_ = count_;
    return true;
  }
  // False as above; `is_dt_needed` from then on.
  bool add_dt(PyObject* object) {
    while (count_ < kDtPlace) tensors_[count_++] = Py_None;
    return add(object);
  }
  bool are_needed() const { return needed_ > 0; }
  bool is_dt_needed() const { return needed_ > kDtPlace; }
  PyObject* apply(PyObject* apply, PyObject* bundle) const {
    const Object shown(PyTuple_New(needed_));
    for (int k = 0; k < needed_; ++k) PyTuple_SetItem(shown.get(), k, Py_NewRef(k == 0 ? bundle : tensors_[k]));
    return PyObject_CallObject(apply, shown.get());
  }

 private:
  static constexpr int kDtPlace = 2 + kEnds;
  PyObject* tensors_[kDtPlace + 1];  // behind the bundle: action, start, goal, dt
  int count_ = 1, needed_ = 0;
  const bool are_recorded_ = is_grad_enabled();
};

// What is saved of a call: nothing, indices and steps, or with them dt itself, action, start and goal, for the gradient of dt.
constexpr Py_ssize_t kSavedSteps = 2, kSavedDt = 3, kSavedAction = 4, kSavedStart = 5, kSavedForDt = kSavedStart + kEnds;

// step((map, kind, apply, steps, type), action, start, start_index, goal, goal_index, dt, dt_per, memory, gradient) -> type
//
// The outputs, through `apply` where autograd records them; each is None where they are written to `memory` and not recorded.
// `steps(dt, dt_per)` makes float64 `[1 or B, 1 or Ha]` of a dt that is no float, without a gradient. The last two may be left out. None, and
// nothing is done, if something is not a tensor, or not ordinary.
PyObject* py_step(PyObject*, PyObject* const* args, Py_ssize_t count) {
  enum { kRoute, kAction, kStart, kStartIndex, kGoal, kGoalIndex, kDt, kDtPer, kMemory, kGradient, kMost };
  PyObject *map, *kind, *apply, *steps_of, *type;
  if ((count != kMost && count != kMemory) || PyArg_ParseTuple(args[kRoute], "OOOOO", &map, &kind, &apply, &steps_of, &type) == 0) {
    return unfit();
  }
  PyObject *const memory = count == kMost ? args[kMemory] : Py_None, *const gradient = count == kMost ? args[kGradient] : Py_None;
  PyObject *const start_index = args[kStartIndex], *const goal_index = args[kGoalIndex], *const dt_per = args[kDtPer];
  if (!is_ordinary() || !PyUnicode_Check(dt_per) ||
      (PyUnicode_CompareWithASCIIString(dt_per, "step") != 0 && PyUnicode_CompareWithASCIIString(dt_per, "trajectory") != 0)) {
    Py_RETURN_NONE;
  }
  const bool is_number = PyFloat_CheckExact(args[kDt]) != 0;
  const Object steps(is_number ? nullptr : PyObject_CallFunctionObjArgs(steps_of, args[kDt], dt_per, nullptr));
  PyObject* const dt = is_number ? args[kDt] : steps.get();
  PyObject* const inputs[Arguments::kInputs] = {kind, args[kAction], args[kStart], start_index, args[kGoal], goal_index, dt};
  Call call;
  Arguments given;
  if (dt == nullptr || !given.take_inputs(inputs, call) || !given.take_outputs(memory, call.outputs)) Py_RETURN_NONE;
  Shown shown;
  bool fits = shown.add(args[kAction]) && call.action.given();
  for (PyObject* const rows : {args[kStart], call.has_goal ? args[kGoal] : Py_None}) {
    for (Py_ssize_t k = 0; k < Arguments::size_of(rows); ++k) fits = fits && shown.add(Arguments::item(rows, k));
  }
  fits = fits && (is_number || shown.add_dt(args[kDt]));
  for (PyObject* const index : {start_index, goal_index}) fits = fits && (index == Py_None || is_tensor(index));
  // The first rows tell how many there are.
  const Array &start = call.ends[0], &goal = call.ends[kStartRows];
  fits = fits && start.given() && (call.has_goal ? goal.given() : goal_index == Py_None);
  if (!fits) Py_RETURN_NONE;
  const Object outputs(forward_results(call));
  if (outputs.get() == nullptr) return none_if_unfit();
  if (!shown.are_needed()) return as_type(type, outputs.get());
  const bool is_saved = !is_number || start_index != Py_None || goal_index != Py_None;
  PyObject* const saved_steps = is_number ? Py_None : dt;
  const auto row = [](PyObject* rows, Py_ssize_t k) { return k < Arguments::size_of(rows) ? Arguments::item(rows, k) : Py_None; };
  PyObject *const from = args[kStart], *const to = call.has_goal ? args[kGoal] : Py_None;
  const Object saved(shown.is_dt_needed() ? PyTuple_Pack(kSavedForDt, start_index, goal_index, saved_steps, args[kDt], args[kAction],
                                                         row(from, 0), row(from, 1), row(from, 2), row(from, 3),
                                                         row(to, 0), row(to, 1), row(to, 2), row(to, 3))
                     : is_saved ? PyTuple_Pack(3, start_index, goal_index, saved_steps)
                                : PyTuple_New(0));
  const auto number = [](int64_t value) { return Object(PyLong_FromLongLong(value)); };
  const auto rows_of = [&](const Array& rows) { return number(rows.given() ? rows.shape[0] : -1); };
  const Object actions = number(call.action.shape[1]), start_rows = rows_of(start), goal_rows = rows_of(goal);
  const Object kept(PyTuple_Pack(5, map, is_number ? dt : Py_None, actions.get(), start_rows.get(), goal_rows.get()));
  if (kept.get() == nullptr || saved.get() == nullptr) return PyErr_NoMemory();
  const Object bundle(PyTuple_Pack(5, outputs.get(), kept.get(), saved.get(), memory, gradient));
  PyObject* const recorded = shown.apply(apply, bundle.get());
  return recorded == nullptr ? none_if_unfit() : as_type(type, Object(recorded).get());
}

// record(ctx, (outputs, kept, saved, ...), *tensors) -> outputs, with what `backward` takes in ctx
//
// The maps are linear: that is the indices, dt and numbers of rows.
PyObject* py_record(PyObject*, PyObject* const* args, Py_ssize_t count) {
  if (count < 2 || !PyTuple_Check(args[1]) || PyTuple_Size(args[1]) != 5) return unfit();
  static const Name materialize_grads("materialize_grads"), call("call"), save_for_backward("save_for_backward");
  PyObject* const saved = PyTuple_GetItem(args[1], 2);
  if (!materialize_grads.set(args[0], Py_False) || !call.set(args[0], PyTuple_GetItem(args[1], 1))) return nullptr;
  if (PyTuple_Size(saved) != 0) {
    PyObject* const done = PyObject_CallObject(save_for_backward.of(args[0]).get(), saved);
    if (done == nullptr) return nullptr;
    Py_DECREF(done);
  }
  return Py_NewRef(PyTuple_GetItem(args[1], 0));
}

// backward(ctx, upstream, into) -> the gradients that `apply` returns; that of the action goes into `into`, if it is not None
//
// None, and nothing is done, if they are differentiated again, or something is not ordinary.
PyObject* py_backward(PyObject*, PyObject* const* args, Py_ssize_t count) {
  if (count != 3 || is_grad_enabled() || !is_ordinary()) Py_RETURN_NONE;
  static const Name call_name("call"), saved_tensors("saved_tensors"), needs_input_grad("needs_input_grad"), kind_name("kind"),
      truncates_name("truncates");
  const Object kept = call_name.of(args[0]), saved = saved_tensors.of(args[0]), needs = needs_input_grad.of(args[0]);
  if (kept.get() == nullptr || saved.get() == nullptr || needs.get() == nullptr) Py_RETURN_NONE;
  PyObject *map = nullptr, *dt = nullptr;
  long long actions = 0, rows[2] = {};
  if (PyArg_ParseTuple(kept.get(), "OOLLL", &map, &dt, &actions, &rows[0], &rows[1]) == 0) return nullptr;
  const Py_ssize_t count_saved = PyTuple_Size(saved.get());
  const auto saved_at = [&](Py_ssize_t k) { return k < count_saved ? PyTuple_GetItem(saved.get(), k) : Py_None; };
  PyObject *const start_index = saved_at(0), *const goal_index = saved_at(1);
  if (dt == Py_None) dt = saved_at(kSavedSteps);
  const Object kind = kind_name.of(map), truncates = truncates_name.of(map);
  PyObject* const inputs[] = {kind.get(), args[1], start_index, goal_index, dt};
  Call call;
  Arguments given;
  if (kind.get() == nullptr || !given.take_upstream(inputs, call) || !given.take(args[2], call.action, true)) Py_RETURN_NONE;
  call.truncate_terminal = truncates.get() == Py_True;
  call.has_goal = rows[1] >= 0;
  const Py_ssize_t used = PyTuple_Size(needs.get()) - 1;
  int64_t sizes[kResults];
  bool is_linear_needed = args[2] != Py_None;
  for (int k = 0; k < kResults; ++k) {
    const bool is_needed = k < used && PyTuple_GetItem(needs.get(), 1 + k) == Py_True && (k > 0 || args[2] == Py_None);
    sizes[k] = !is_needed ? -1 : k == 0 ? actions : rows[(k - 1) / kStartRows];
    is_linear_needed = is_linear_needed || is_needed;
  }
  Result results[kResults + 1];
  if (is_linear_needed && !make_gradients(call, sizes, results)) return none_if_unfit();
  if (used > kResults && PyTuple_GetItem(needs.get(), 1 + kResults) == Py_True) {
    const Object start(PyTuple_GetSlice(saved.get(), kSavedStart, kSavedStart + kStartRows));
    const Object goal(PyTuple_GetSlice(saved.get(), kSavedStart + kStartRows, kSavedForDt));
    PyObject* const all[] = {kind.get(), saved_at(kSavedAction), start.get(), start_index, goal.get(), goal_index, dt};
    Call with_inputs;
    Array as_given;
    if (!given.take_inputs(all, with_inputs) || !given.take(saved_at(kSavedDt), as_given)) Py_RETURN_NONE;
    std::copy_n(call.outputs, kOutputs, with_inputs.outputs);
    if (elements_of(call.outputs) == 0 || !make_dt_gradient(with_inputs, as_given, results[kResults])) return none_if_unfit();
  }
  return handed_over(results, used, 1);
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
    {"use", &py_use, METH_VARARGS, "Says what tensors are."},
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
  const Object numbers(PyDict_New());
  if (module == nullptr || numbers.get() == nullptr) return nullptr;
  for (const ControlMapRow& row : kControlMaps) {
    const Object number(PyLong_FromLongLong(static_cast<long long>(row.map)));
    if (PyDict_SetItemString(numbers.get(), row.name, number.get()) != 0) return nullptr;
  }
  return PyModule_AddObjectRef(module, "map_numbers", numbers.get()) == 0 ? module : nullptr;
}
