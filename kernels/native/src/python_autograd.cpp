// Maps and costs through autograd, whose nodes are Python's (fast.py, fused.py): what they compute and what they keep.
#include <algorithm>

#include "python_results.h"

namespace traj_integrator {
namespace {

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
    is_needed_[count_] = is_needed;
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
  bool are_recorded() const { return are_recorded_; }
  bool are_needed() const { return needed_ > 0; }
  bool is_needed(int tensor) const { return is_needed_[1 + tensor]; }
  bool is_dt_needed() const { return needed_ > kDtPlace; }
  PyObject* apply(PyObject* apply, PyObject* bundle) const {
    const Object shown(PyTuple_New(needed_));
    for (int k = 0; k < needed_; ++k) PyTuple_SetItem(shown.get(), k, Py_NewRef(k == 0 ? bundle : tensors_[k]));
    return PyObject_CallObject(apply, shown.get());
  }

 private:
  static constexpr int kDtPlace = 2 + kEnds;
  bool is_needed_[kDtPlace + 1] = {};
  PyObject* tensors_[kDtPlace + 1];  // behind the bundle: action, start, goal, dt
  int count_ = 1, needed_ = 0;
  const bool are_recorded_ = is_grad_enabled();
};

// What is saved of a call: nothing, indices and steps, or with them dt itself, action, start and goal, for the gradient of dt.
constexpr Py_ssize_t kSavedSteps = 2, kSavedDt = 3, kSavedAction = 4, kSavedStart = 5, kSavedForDt = kSavedStart + kEnds;

}  // namespace

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

// cost(apply, kept, map, action, start, start_index, goal, goal_index, dt, terms) -> [B]
//
// The cost, through `apply((cost, kept, saved), action, *rows)` where autograd records it: saved are action, start, goal and their
// gradients. None, and nothing is done, if something is not a tensor, or not ordinary, or dt or a term needs a gradient.
PyObject* py_cost(PyObject*, PyObject* const* args, Py_ssize_t count) {
  enum { kApply, kKept, kMap, kAction, kStart, kStartIndex, kGoal, kGoalIndex, kDt, kTerms, kMost };
  if (count != kMost) return unfit();
  CostCall call;
  Arguments given;
  const Array &action = call.map.action, (&ends)[kEnds] = call.map.ends;
  if (!is_ordinary() || !given.take_inputs(args + kMap, call.map) || !given.take_terms(args[kTerms], call)) Py_RETURN_NONE;
  Shown shown;
  PyObject* variables[kResults] = {args[kAction]};
  bool fits = shown.add(args[kAction]) && action.given();
  for (int k = 0; k < kEnds; ++k) {
    PyObject* const rows = args[k < kStartRows ? kStart : kGoal];
    const Py_ssize_t place = k % kStartRows;
    variables[1 + k] = place < Arguments::size_of(rows) ? Arguments::item(rows, place) : Py_None;
    fits = fits && shown.add(variables[1 + k]) && (!ends[k].given() || ends[k].type == action.type);
  }
  const auto is_fixed = [&](PyObject* object) {
    return object == Py_None || (is_tensor(object) && !(shown.are_recorded() && requires_grad(object)));
  };
  for (const int place : {kStartIndex, kGoalIndex, kDt}) fits = fits && (PyFloat_CheckExact(args[place]) || is_fixed(args[place]));
  for (Py_ssize_t k = 0; k < kOutputs * CostCall::kFields; ++k) {
    fits = fits && is_fixed(Arguments::item(Arguments::item(args[kTerms], k / CostCall::kFields), k % CostCall::kFields));
  }
  fits = fits && ends[0].given() && (call.map.has_goal ? ends[kStartRows].given() : args[kGoalIndex] == Py_None);
  if (!fits) Py_RETURN_NONE;
  Result cost, gradients[kResults];
  const bool done = run(action.size(), [&](int threads) {
    expect_action(action);
    const auto& shape = action.shape;
    cost.make(action.type, {shape[0]}, call.cost);
    if (shown.is_needed(0)) gradients[0].make(action.type, {shape[0], shape[1], shape[2]}, call.grad_action);
    for (int k = 0; k < kEnds; ++k) {
      if (shown.is_needed(1 + k)) gradients[1 + k].make('d', {shape[0], shape[2]}, call.grad_ends[k]);
    }
    quadratic_cost(call, threads);
  });
  if (!done) return none_if_unfit();
  const Object value(cost.hand_over());
  if (value.get() == nullptr) return PyErr_NoMemory();
  if (!shown.are_needed()) return Py_NewRef(value.get());
  const Object saved(handed_over(gradients, kResults, kResults));
  if (saved.get() == nullptr) return PyErr_NoMemory();
  for (int k = 0; k < kResults; ++k) PyTuple_SetItem(saved.get(), k, Py_NewRef(variables[k]));
  const Object bundle(PyTuple_Pack(3, value.get(), args[kKept], saved.get()));
  return bundle.get() == nullptr ? PyErr_NoMemory() : shown.apply(args[kApply], bundle.get());
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

// are_plain(*objects) -> whether no mode has to see torch's operators, and tensors are of no subclass and not recorded by autograd
PyObject* py_are_plain(PyObject*, PyObject* const* args, Py_ssize_t count) {
  const bool are_recorded = is_grad_enabled();
  const bool are_plain = has_no_modes() && std::all_of(args, args + count, [&](PyObject* object) {
    if (is_tensor(object)) return !are_recorded || !requires_grad(object);
    return object == Py_None || PyFloat_CheckExact(object) || PyObject_IsInstance(object, torch.tensor) == 0;
  });
  return PyErr_Occurred() == nullptr ? PyBool_FromLong(are_plain) : nullptr;
}

}  // namespace traj_integrator
