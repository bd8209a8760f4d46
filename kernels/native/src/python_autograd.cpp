// A step as one node of autograd, whose Python class (`_Step` in fast.py) has little more to do than to call this.
#include "python_call.h"

namespace traj_integrator {
namespace {

// Names of attributes, made once: a string costs as much as the rest of a look-up.
PyObject* name(const char* text) { return PyUnicode_InternFromString(text); }
struct Names {
  PyObject *materialize_grads, *save_for_backward, *saved_tensors, *needs_input_grad, *call, *kind, *truncates;
};
const Names& names() {
  static const Names known{name("materialize_grads"), name("save_for_backward"), name("saved_tensors"),
                           name("needs_input_grad"),  name("call"),              name("kind"),          name("truncates")};
  return known;
}

Object attribute(PyObject* object, PyObject* name) { return Object(PyObject_GetAttr(object, name)); }

int64_t rows_of(const EndArrays& end) { return end.rows[0].given() ? end.rows[0].shape[0] : -1; }

bool is_needed(PyObject* needs, Py_ssize_t k) { return k < PyTuple_Size(needs) && PyTuple_GetItem(needs, k) == Py_True; }

// The tensors of a call, and which of them require a gradient that is to be recorded.
class Tensors {
 public:
  // None is none; false, without a Python error: it is no tensor for the loops.
  bool take(PyObject* object, Array& array) {
    return object == Py_None || (is_tensor(object) && arrays_.take(object, array));
  }
  // The same of one that a gradient may be for.
  bool take_input(PyObject* object, Array& array) {
    if (!take(object, array)) return false;
    const bool is_needed = are_recorded_ && object != Py_None && requires_grad(object);
    inputs_[count_++] = is_needed ? object : Py_None;
    if (is_needed) needed_ = count_;
    return true;
  }
  bool take_rows(PyObject* rows, EndArrays& end) {
    const Py_ssize_t count = PyTuple_Check(rows) ? PyTuple_Size(rows) : 5;
    for (Py_ssize_t k = 0; count <= 4 && k < count; ++k) {
      if (!take_input(PyTuple_GetItem(rows, k), end.rows[k])) return false;
    }
    return count <= 4;
  }
  Arguments& arrays() { return arrays_; }
  bool are_needed() const { return needed_ > 0; }
  // `apply(bundle, action, *rows)`: what needs no gradient is not shown, since autograd takes its time for each tensor.
  PyObject* apply(PyObject* apply, const Object& bundle, PyObject* action) const {
    const Object shown(PyTuple_New(1 + needed_));
    if (shown.get() == nullptr || bundle.get() == nullptr) return PyErr_NoMemory();
    for (int k = 0; k <= needed_; ++k) {
      PyObject* const object = k == 0 ? bundle.get() : k == 1 ? action : inputs_[k - 1];
      Py_INCREF(object);
      PyTuple_SetItem(shown.get(), k, object);
    }
    return PyObject_CallObject(apply, shown.get());
  }

 private:
  Arguments arrays_;
  PyObject* inputs_[9];  // action, start, goal
  int count_ = 0, needed_ = 0;
  const bool are_recorded_ = is_grad_enabled();
};

// Goal rows that are all None are no goal.
bool has_rows(PyObject* rows) {
  for (Py_ssize_t k = 0; PyTuple_Check(rows) && k < PyTuple_Size(rows); ++k) {
    if (PyTuple_GetItem(rows, k) != Py_None) return true;
  }
  return false;
}

// None where arguments do not fit: the general way says what is wrong.
PyObject* none_if_unfit() {
  if (PyErr_Occurred() != nullptr && !is_unfit()) return nullptr;
  PyErr_Clear();
  Py_RETURN_NONE;
}

// A named tuple of that type; null with a Python error.
PyObject* as_type(PyObject* type, PyObject* outputs) {
  static const auto make = reinterpret_cast<newfunc>(PyType_GetSlot(&PyTuple_Type, Py_tp_new));  // `type(...)` takes longer
  const Object arguments(PyTuple_Pack(1, outputs));
  return arguments.get() == nullptr ? PyErr_NoMemory() : make(reinterpret_cast<PyTypeObject*>(type), arguments.get(), nullptr);
}

}  // namespace

// step((map, kind, apply, steps, type), action, start, start_index, goal, goal_index, dt, dt_per, memory, gradient) -> type
//
// The outputs, through `apply` where autograd records them; each is None where they are written to `memory` and not recorded.
// `steps(dt, dt_per)` makes float64 `[1 or B, 1 or Ha]` of a dt that is no float. The last two may be left out. None, and
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
  Call call;
  Tensors tensors;
  call.has_goal = has_rows(args[kGoal]);
  if (dt == nullptr || !tensors.arrays().take_map(kind, call) || !tensors.take_input(args[kAction], call.action) ||
      !tensors.take_rows(args[kStart], call.start) || !tensors.take(start_index, call.start.index) ||
      (call.has_goal && !tensors.take_rows(args[kGoal], call.goal)) || !tensors.take(goal_index, call.goal.index) ||
      !tensors.arrays().take_dt(dt, call.dt) || !tensors.arrays().take_outputs(memory, call.outputs)) {
    Py_RETURN_NONE;
  }
  // The first rows tell how many there are.
  if (!call.action.given() || !call.start.rows[0].given() || (call.has_goal ? !call.goal.rows[0].given() : goal_index != Py_None)) {
    Py_RETURN_NONE;
  }
  PyObject* const results = forward_results(call);
  if (results == nullptr) return none_if_unfit();
  const Object outputs(results);
  if (!tensors.are_needed()) return as_type(type, results);
  const Object actions(PyLong_FromLongLong(call.action.shape[1]));
  const Object start_rows(PyLong_FromLongLong(rows_of(call.start))), goal_rows(PyLong_FromLongLong(rows_of(call.goal)));
  const Object kept(PyTuple_Pack(5, map, is_number ? dt : Py_None, actions.get(), start_rows.get(), goal_rows.get()));
  const bool is_saved = !is_number || start_index != Py_None || goal_index != Py_None;
  const Object saved(is_saved ? PyTuple_Pack(3, start_index, goal_index, is_number ? Py_None : dt) : PyTuple_New(0));
  if (kept.get() == nullptr || saved.get() == nullptr) return PyErr_NoMemory();
  const Object bundle(PyTuple_Pack(5, results, kept.get(), saved.get(), memory, gradient));
  PyObject* const recorded = tensors.apply(apply, bundle, args[kAction]);
  return recorded == nullptr ? none_if_unfit() : as_type(type, Object(recorded).get());
}

// record(ctx, (outputs, kept, saved, ...), *tensors) -> outputs, with what `backward` takes in ctx
//
// The maps are linear: that is the indices, dt and numbers of rows.
PyObject* py_record(PyObject*, PyObject* const* args, Py_ssize_t count) {
  if (count < 2 || !PyTuple_Check(args[1]) || PyTuple_Size(args[1]) != 5) return unfit();
  PyObject *const ctx = args[0], *const outputs = PyTuple_GetItem(args[1], 0), *const saved = PyTuple_GetItem(args[1], 2);
  if (PyObject_SetAttr(ctx, names().materialize_grads, Py_False) != 0 ||
      PyObject_SetAttr(ctx, names().call, PyTuple_GetItem(args[1], 1)) != 0) {
    return nullptr;
  }
  if (PyTuple_Size(saved) != 0) {
    const Object save(PyObject_GetAttr(ctx, names().save_for_backward));
    PyObject* const done = PyObject_CallObject(save.get(), saved);
    if (done == nullptr) return nullptr;
    Py_DECREF(done);
  }
  return Py_NewRef(outputs);
}

// backward(ctx, upstream, into) -> the gradients that `apply` returns; that of the action goes into `into`, if it is not None
//
// None, and nothing is done, if they are differentiated again, or something is not ordinary.
PyObject* py_backward(PyObject*, PyObject* const* args, Py_ssize_t count) {
  if (count != 3 || is_grad_enabled() || !is_ordinary()) Py_RETURN_NONE;
  PyObject* const ctx = args[0];
  const Object kept = attribute(ctx, names().call), saved = attribute(ctx, names().saved_tensors);
  const Object needs = attribute(ctx, names().needs_input_grad);
  if (kept.get() == nullptr || saved.get() == nullptr || needs.get() == nullptr) Py_RETURN_NONE;
  PyObject *map = nullptr, *dt = nullptr, *start_index = Py_None, *goal_index = Py_None, *steps = Py_None;
  long long actions = 0, start_rows = 0, goal_rows = 0;
  if (PyArg_ParseTuple(kept.get(), "OOLLL", &map, &dt, &actions, &start_rows, &goal_rows) == 0) return nullptr;
  if (PyTuple_Size(saved.get()) == 3 && PyArg_ParseTuple(saved.get(), "OOO", &start_index, &goal_index, &steps) == 0) {
    return nullptr;
  }
  const Object kind = attribute(map, names().kind), truncates = attribute(map, names().truncates);
  Call call;
  Arguments given;
  if (kind.get() == nullptr || !given.take_map(kind.get(), call) || !given.take_all(args[1], call.outputs, 4) ||
      !given.take(start_index, call.start.index) || !given.take(goal_index, call.goal.index) ||
      !given.take_dt(dt == Py_None ? steps : dt, call.dt) || !given.take(args[2], call.action, true)) {
    Py_RETURN_NONE;
  }
  call.truncate_terminal = truncates.get() == Py_True;
  call.has_goal = goal_rows >= 0;
  int64_t sizes[9];
  for (int k = 0; k < 9; ++k) {
    const long long rows = k == 0 ? actions : k < 5 ? start_rows : goal_rows;
    sizes[k] = is_needed(needs.get(), 1 + k) ? rows : -1;
  }
  if (args[2] != Py_None) sizes[0] = -1;
  PyObject* const gradients = vjp_results(call, sizes, PyTuple_Size(needs.get()) - 1, 1);
  if (gradients != nullptr || !is_unfit()) return gradients;
  PyErr_Clear();
  Py_RETURN_NONE;
}

}  // namespace traj_integrator
