// A step as one node of autograd, whose Python class (`_Step` in fast.py) has little more to do than to call this.
#include "python_call.h"

namespace traj_integrator {
namespace {

// The arguments of `forward`, as a tuple has them.
constexpr Py_ssize_t kArguments = 8;
enum Place { kAction = 1, kStart = 2, kStartIndex = 3, kGoal = 4, kGoalIndex = 5, kDt = 6 };

bool take_call(PyObject* tuple, PyObject* (&call)[kArguments]) {
  if (!PyTuple_Check(tuple) || PyTuple_Size(tuple) != kArguments) return false;
  for (Py_ssize_t k = 0; k < kArguments; ++k) call[k] = PyTuple_GetItem(tuple, k);
  return true;
}

// Names of attributes, made once: a string costs as much as the rest of a look-up.
PyObject* name(const char* text) { return PyUnicode_InternFromString(text); }
struct Names {
  PyObject *set_materialize_grads, *save_for_backward, *saved_tensors, *needs_input_grad, *call, *kind, *truncates;
};
const Names& names() {
  static const Names known{name("set_materialize_grads"), name("save_for_backward"), name("saved_tensors"),
                           name("needs_input_grad"), name("call"), name("kind"), name("truncates")};
  return known;
}

Object attribute(PyObject* object, PyObject* name) { return Object(PyObject_GetAttr(object, name)); }

int64_t rows_of(const EndArrays& end) { return end.rows[0].given() ? end.rows[0].shape[0] : -1; }

bool is_needed(PyObject* needs, Py_ssize_t k) { return k < PyTuple_Size(needs) && PyTuple_GetItem(needs, k) == Py_True; }

}  // namespace

// step(apply, map, call) -> apply((map, call), action, *start, *goal) if autograd records forward(*call), else that itself
//
// None, and nothing is done, if something is not a tensor, or not ordinary.
PyObject* py_step(PyObject*, PyObject* const* args, Py_ssize_t count) {
  PyObject* call[kArguments];
  if (count != 3 || !take_call(args[2], call)) return unfit();
  bool requires_grad = false, fits = is_ordinary() && PyTuple_Check(call[kStart]);
  for (int k = kAction; fits && k <= kGoalIndex; ++k) fits = add_requires_grad(call[k], requires_grad);
  if (!fits) Py_RETURN_NONE;
  if (!requires_grad || !is_grad_enabled()) {
    Call unused;
    return forward_results(call, unused);
  }
  const Py_ssize_t starts = PyTuple_Size(call[kStart]), goals = call[kGoal] == Py_None ? 0 : PyTuple_Size(call[kGoal]);
  const Object tensors(PyTuple_New(2 + starts + goals));
  PyObject* const bundle = PyTuple_Pack(2, args[1], args[2]);
  if (tensors.get() == nullptr || bundle == nullptr) return PyErr_NoMemory();
  PyTuple_SetItem(tensors.get(), 0, bundle);
  // What needs no gradient is not shown: autograd takes its time for each tensor.
  const auto set = [&](Py_ssize_t k, PyObject* tensor) {
    bool is_needed = k == 1;
    PyObject* const shown = add_requires_grad(tensor, is_needed) && is_needed ? tensor : Py_None;
    Py_INCREF(shown);
    PyTuple_SetItem(tensors.get(), k, shown);
  };
  set(1, call[kAction]);
  for (Py_ssize_t k = 0; k < starts; ++k) set(2 + k, PyTuple_GetItem(call[kStart], k));
  for (Py_ssize_t k = 0; k < goals; ++k) set(2 + starts + k, PyTuple_GetItem(call[kGoal], k));
  return PyObject_CallObject(args[0], tensors.get());
}

// record(ctx, (map, call), *tensors) -> forward(*call), with what `backward` takes in ctx: its `call`
//
// The maps are linear: that is the indices, dt and numbers of rows.
PyObject* py_record(PyObject*, PyObject* const* args, Py_ssize_t count) {
  PyObject* call[kArguments];
  if (count < 2 || !PyTuple_Check(args[1]) || !take_call(PyTuple_GetItem(args[1], 1), call)) return unfit();
  PyObject *const ctx = args[0], *const map = PyTuple_GetItem(args[1], 0);
  if (Object(PyObject_CallMethodObjArgs(ctx, names().set_materialize_grads, Py_False, nullptr)).get() == nullptr) return unfit();
  const bool is_number = PyFloat_CheckExact(call[kDt]);
  if (!is_number || call[kStartIndex] != Py_None || call[kGoalIndex] != Py_None) {
    PyObject* const dt = is_number ? Py_None : call[kDt];
    const Object saved(PyObject_CallMethodObjArgs(ctx, names().save_for_backward, call[kStartIndex], call[kGoalIndex], dt, nullptr));
    if (saved.get() == nullptr) return unfit();
  }
  Call made;
  PyObject* const outputs = forward_results(call, made);
  if (outputs == nullptr) return nullptr;
  const Object kept(Py_BuildValue("OOLLL", map, is_number ? call[kDt] : Py_None, static_cast<long long>(made.action.shape[1]),
                                  static_cast<long long>(rows_of(made.start)), static_cast<long long>(rows_of(made.goal))));
  if (kept.get() != nullptr && PyObject_SetAttr(ctx, names().call, kept.get()) == 0) return outputs;
  Py_DECREF(outputs);
  return nullptr;
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
