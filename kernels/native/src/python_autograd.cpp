// Maps and costs through autograd, whose nodes are Python's (fast.py, fused.py): their results and the tensors they
// keep.
#include <algorithm>

#include "python_results.h"

namespace traj_integrator {
namespace {

// None if arguments do not fit: the general way raises the error.
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

// The tensors of a call as `apply` takes them, `apply(bundle, *values, dt)`: what needs no gradient is not shown, since
// autograd takes its time for each tensor.
class Shown {
 public:
  // False, without a Python error, if it is neither a tensor nor None.
  bool add(PyObject* object) {
    if (object != Py_None && !is_tensor(object)) return false;
    const bool is_needed = are_recorded_ && object != Py_None && requires_grad(object);
    is_needed_[count_] = is_needed;
    tensors_[count_] = is_needed || count_ == 1 ? object : Py_None;
    ++count_;
    if (is_needed) needed_ = count_;
    return true;
  }
  bool are_recorded() const { return are_recorded_; }
  bool are_needed() const { return needed_ > 0; }
  bool is_needed(int tensor) const { return is_needed_[1 + tensor]; }
  bool is_dt_needed() const { return needed_ > 1 + kValues; }
  PyObject* apply(PyObject* apply, PyObject* bundle) const {
    const Object shown(PyTuple_New(needed_));
    for (int k = 0; k < needed_; ++k) PyTuple_SetItem(shown.get(), k, Py_NewRef(k == 0 ? bundle : tensors_[k]));
    return PyObject_CallObject(apply, shown.get());
  }

 private:
  static constexpr int kMost = 1 + kValues + 1;
  bool is_needed_[kMost] = {};
  PyObject* tensors_[kMost];  // behind the bundle: values, dt
  int count_ = 1, needed_ = 0;
  const bool are_recorded_ = is_grad_enabled();
};

// A tuple whose parts have names in Python, too: those of an enumeration, in its order.
class Record {
 public:
  Record(const char* name, std::initializer_list<const char*> parts) {
    PyStructSequence_Field fields[kMost + 1] = {};
    std::transform(parts.begin(), parts.end(), fields, [](const char* part) { return PyStructSequence_Field{part, nullptr}; });
    PyStructSequence_Desc described{name, nullptr, fields, static_cast<int>(parts.size())};
    type_ = PyStructSequence_NewType(&described);
  }
  Object of(std::initializer_list<PyObject*> parts) const {
    PyObject* const made = PyStructSequence_New(type_);
    Py_ssize_t k = 0;
    for (PyObject* const part : parts) {
      if (made != nullptr) PyStructSequence_SetItem(made, k++, Py_NewRef(part));
    }
    return Object(made);
  }

 private:
  static constexpr size_t kMost = 5;
  PyTypeObject* type_;
};

// A step's data for its node of autograd.
enum { kOutputsOf, kCallOf, kSavedOf, kMemoryOf, kGradientOf };
const Record& recording() {
  static const Record type("traj_integrator_ros.Recording", {"outputs", "call", "saved", "memory", "gradient"});
  return type;
}

// Data of autograd's node that are no tensors: seconds is dt, or None if that is a tensor; -1 goal rows: there is none.
enum { kMapOf, kSecondsOf, kActionsOf, kStartRowsOf, kGoalRowsOf };
const Record& kept_call() {
  static const Record type("traj_integrator_ros.KeptCall", {"map", "seconds", "action_horizon", "start_rows", "goal_rows"});
  return type;
}

// The tensors it saves: none, indices and steps, or also dt itself and the values, for the gradient of dt.
constexpr Py_ssize_t kSavedSteps = 2, kSavedDt = 3, kSavedValues = 4, kSavedForDt = kSavedValues + kValues;

// Attributes of a `FastMap`.
const Name& kind_of_map() {
  static const Name name("kind");
  return name;
}

}  // namespace

// step(map, apply, values, indices, dt, dt_per, memory, gradient) -> map.results(outputs)
//
// The outputs, through `apply` where autograd records them; each is None where they are written to `memory` and not recorded.
// `map.steps(dt, dt_per)` makes float64 `[1 or B, 1 or Ha]` of a dt that is no float, without a gradient. The last two may be
// left out. None, and nothing is done, if something is not a tensor, or not ordinary.
PyObject* py_step(PyObject*, PyObject* const* args, Py_ssize_t count) {
  enum { kMap, kApply, kValuesAt, kIndices, kDt, kDtPer, kMemory, kGradient, kMost };
  if (count != kMost && count != kMemory) return unfit();
  PyObject *const memory = count == kMost ? args[kMemory] : Py_None, *const gradient = count == kMost ? args[kGradient] : Py_None;
  PyObject *const map = args[kMap], *const values = args[kValuesAt], *const dt_per = args[kDtPer];
  if (!is_ordinary() || !PyUnicode_Check(dt_per) ||
      (PyUnicode_CompareWithASCIIString(dt_per, "step") != 0 && PyUnicode_CompareWithASCIIString(dt_per, "trajectory") != 0)) {
    Py_RETURN_NONE;
  }
  static const Name steps_name("steps"), results_name("results");
  const bool is_number = PyFloat_CheckExact(args[kDt]) != 0;
  const Object kind = kind_of_map().of(map), type = results_name.of(map);
  const Object steps(is_number ? nullptr : PyObject_CallFunctionObjArgs(steps_name.of(map).get(), args[kDt], dt_per, nullptr));
  PyObject* const dt = is_number ? args[kDt] : steps.get();
  PyObject* const inputs[] = {kind.get(), values, args[kIndices], dt};
  Call call;
  Arguments given;
  if (dt == nullptr || kind.get() == nullptr || type.get() == nullptr) Py_RETURN_NONE;
  if (!given.take_inputs(inputs, call) || !given.take_outputs(memory, call.outputs)) Py_RETURN_NONE;
  Shown shown;
  bool fits = call.action.given();
  for (int k = 0; k < kValues; ++k) fits = fits && shown.add(Arguments::item(values, k));
  fits = fits && (is_number || shown.add(args[kDt]));
  PyObject *const start_index = Arguments::item(args[kIndices], 0), *const goal_index = Arguments::item(args[kIndices], 1);
  for (PyObject* const index : {start_index, goal_index}) fits = fits && (index == Py_None || is_tensor(index));
  // The first rows give the number of rows.
  const Array &start = call.ends[0], &goal = call.ends[kStartRows];
  fits = fits && start.given() && (call.has_goal ? goal.given() : goal_index == Py_None);
  if (!fits) Py_RETURN_NONE;
  const Object outputs(forward_results(call));
  if (outputs.get() == nullptr) return none_if_unfit();
  if (!shown.are_needed()) return as_type(type.get(), outputs.get());
  const bool is_saved = !is_number || start_index != Py_None || goal_index != Py_None;
  const Py_ssize_t count_saved = shown.is_dt_needed() ? kSavedForDt : is_saved ? kSavedDt : 0;
  const Object saved(PyTuple_New(count_saved));
  PyObject* to_save[kSavedForDt] = {start_index, goal_index, is_number ? Py_None : dt, args[kDt]};
  for (int k = 0; k < kValues; ++k) to_save[kSavedValues + k] = Arguments::item(values, k);
  for (Py_ssize_t k = 0; saved.get() != nullptr && k < count_saved; ++k) PyTuple_SetItem(saved.get(), k, Py_NewRef(to_save[k]));
  const auto number = [](int64_t value) { return Object(PyLong_FromLongLong(value)); };
  const auto rows_of = [&](const Array& rows) { return number(rows.given() ? rows.shape[0] : -1); };
  const Object actions = number(call.action.shape[1]), start_rows = rows_of(start), goal_rows = rows_of(goal);
  const Object kept = kept_call().of({map, is_number ? dt : Py_None, actions.get(), start_rows.get(), goal_rows.get()});
  if (kept.get() == nullptr || saved.get() == nullptr) return PyErr_NoMemory();
  const Object bundle = recording().of({outputs.get(), kept.get(), saved.get(), memory, gradient});
  if (bundle.get() == nullptr) return PyErr_NoMemory();
  PyObject* const recorded = shown.apply(args[kApply], bundle.get());
  return recorded == nullptr ? none_if_unfit() : as_type(type.get(), Object(recorded).get());
}

// record(ctx, recording, *tensors) -> outputs, with what `backward` takes in ctx
//
// The maps are linear: that is the indices, dt and numbers of rows.
PyObject* py_record(PyObject*, PyObject* const* args, Py_ssize_t count) {
  if (count < 2 || !PyTuple_Check(args[1]) || PyTuple_Size(args[1]) != 5) return unfit();
  static const Name materialize_grads("materialize_grads"), call("call"), save_for_backward("save_for_backward");
  PyObject* const saved = PyTuple_GetItem(args[1], kSavedOf);
  if (!materialize_grads.set(args[0], Py_False) || !call.set(args[0], PyTuple_GetItem(args[1], kCallOf))) return nullptr;
  if (PyTuple_Size(saved) != 0) {
    PyObject* const done = PyObject_CallObject(save_for_backward.of(args[0]).get(), saved);
    if (done == nullptr) return nullptr;
    Py_DECREF(done);
  }
  return Py_NewRef(PyTuple_GetItem(args[1], kOutputsOf));
}

// cost(apply, kept, map, values, indices, dt, terms) -> [B]
//
// Returns the cost. Where autograd records it, the cost goes through `apply((cost, kept, saved), *values)`; saved holds
// the values and their gradients. Returns None without computing anything if an argument is not an ordinary tensor, or
// if dt or a term needs a gradient.
PyObject* py_cost(PyObject*, PyObject* const* args, Py_ssize_t count) {
  enum { kApply, kKept, kMap, kValuesAt, kIndices, kDt, kTerms, kMost };
  if (count != kMost) return unfit();
  CostCall call;
  Arguments given;
  const Array &action = call.map.action, (&ends)[kEnds] = call.map.ends;
  if (!is_ordinary() || !given.take_inputs(args + kMap, call.map) || !given.take_terms(args[kTerms], call)) Py_RETURN_NONE;
  Shown shown;
  bool fits = action.given();
  for (int k = 0; k < kValues; ++k) {
    const Array& value = value_of(call.map, k);
    fits = fits && shown.add(Arguments::item(args[kValuesAt], k)) && (!value.given() || value.type == action.type);
  }
  const auto is_fixed = [&](PyObject* object) {
    return object == Py_None || (is_tensor(object) && !(shown.are_recorded() && requires_grad(object)));
  };
  PyObject *const start_index = Arguments::item(args[kIndices], 0), *const goal_index = Arguments::item(args[kIndices], 1);
  fits = fits && is_fixed(start_index) && is_fixed(goal_index) && (PyFloat_CheckExact(args[kDt]) || is_fixed(args[kDt]));
  for (Py_ssize_t k = 0; k < kOutputs * CostCall::kFields; ++k) {
    fits = fits && is_fixed(Arguments::item(Arguments::item(args[kTerms], k / CostCall::kFields), k % CostCall::kFields));
  }
  fits = fits && ends[0].given() && (call.map.has_goal ? ends[kStartRows].given() : goal_index == Py_None);
  if (!fits) Py_RETURN_NONE;
  Result cost, gradients[kValues];
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
  const Object saved(handed_over(gradients, kValues, kValues));
  if (saved.get() == nullptr) return PyErr_NoMemory();
  for (int k = 0; k < kValues; ++k) PyTuple_SetItem(saved.get(), k, Py_NewRef(Arguments::item(args[kValuesAt], k)));
  const Object bundle(PyTuple_Pack(3, value.get(), args[kKept], saved.get()));
  return bundle.get() == nullptr ? PyErr_NoMemory() : shown.apply(args[kApply], bundle.get());
}

// backward(ctx, upstream, into) -> the gradients that `apply` returns; that of the action goes into `into`, if it is not None
//
// None, and nothing is done, if they are differentiated again, or something is not ordinary.
PyObject* py_backward(PyObject*, PyObject* const* args, Py_ssize_t count) {
  if (count != 3 || is_grad_enabled() || !is_ordinary()) Py_RETURN_NONE;
  static const Name call_name("call"), saved_tensors("saved_tensors"), needs_input_grad("needs_input_grad"),
      truncates_name("truncates");
  const Object kept = call_name.of(args[0]), saved = saved_tensors.of(args[0]), needs = needs_input_grad.of(args[0]);
  if (kept.get() == nullptr || saved.get() == nullptr || needs.get() == nullptr) Py_RETURN_NONE;
  if (PyTuple_Size(kept.get()) != kGoalRowsOf + 1) return unfit();
  const auto kept_at = [&](int part) { return PyTuple_GetItem(kept.get(), part); };
  const auto number = [&](int part) { return PyLong_AsLongLong(kept_at(part)); };
  const int64_t actions = number(kActionsOf), rows[2] = {number(kStartRowsOf), number(kGoalRowsOf)};
  PyObject *const map = kept_at(kMapOf), *const seconds = kept_at(kSecondsOf);
  const Object indices(PyTuple_GetSlice(saved.get(), 0, kSavedSteps));
  PyObject* const dt = seconds == Py_None ? Arguments::item(saved.get(), kSavedSteps) : seconds;
  const Object kind = kind_of_map().of(map), truncates = truncates_name.of(map);
  PyObject* const inputs[] = {kind.get(), args[1], indices.get(), dt};
  Call call;
  Arguments given;
  if (kind.get() == nullptr || !given.take_upstream(inputs, call) || !given.take(args[2], call.action, true)) Py_RETURN_NONE;
  call.truncate_terminal = truncates.get() == Py_True;
  call.has_goal = rows[1] >= 0;
  const Py_ssize_t used = PyTuple_Size(needs.get()) - 1;
  int64_t sizes[kValues];
  bool is_linear_needed = args[2] != Py_None;
  for (int k = 0; k < kValues; ++k) {
    const bool is_needed = k < used && PyTuple_GetItem(needs.get(), 1 + k) == Py_True && (k > 0 || args[2] == Py_None);
    sizes[k] = !is_needed ? -1 : k == 0 ? actions : rows[(k - 1) / kStartRows];
    is_linear_needed = is_linear_needed || is_needed;
  }
  Result results[kValues + 1];
  if (is_linear_needed && !make_gradients(call, sizes, results)) return none_if_unfit();
  if (used > kValues && PyTuple_GetItem(needs.get(), 1 + kValues) == Py_True) {
    const Object values(PyTuple_GetSlice(saved.get(), kSavedValues, kSavedForDt));
    PyObject* const all[] = {kind.get(), values.get(), indices.get(), dt};
    Call with_inputs;
    Array as_given;
    if (!given.take_inputs(all, with_inputs) || !given.take(Arguments::item(saved.get(), kSavedDt), as_given)) Py_RETURN_NONE;
    std::copy_n(call.outputs, kOutputs, with_inputs.outputs);
    if (elements_of(call.outputs) == 0 || !make_dt_gradient(with_inputs, as_given, results[kValues])) return none_if_unfit();
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

// number(tensor, *lengths) -> the float that all elements are of a tensor of one of those lengths; None if something is not ordinary
PyObject* py_number(PyObject*, PyObject* const* args, Py_ssize_t count) {
  if (count < 1) return unfit();
  Array array;
  if (!is_tensor(args[0]) || requires_grad(args[0]) || !is_ordinary() || !read_tensor(args[0], array)) Py_RETURN_NONE;
  const auto is_length = [&](PyObject* length) { return PyLong_AsLongLong(length) == array.shape[0]; };
  const bool fits = array.dims == 1 && array.is_real() && array.size() > 0 && std::any_of(args + 1, args + count, is_length);
  if (PyErr_Occurred() != nullptr) return nullptr;
  const auto common = [&](const auto* values) -> PyObject* {
    const bool are_equal = std::all_of(values + 1, values + array.size(), [&](auto value) { return value == values[0]; });
    return are_equal ? PyFloat_FromDouble(values[0]) : Py_NewRef(Py_None);
  };
  if (!fits) Py_RETURN_NONE;
  return array.type == 'd' ? common(array.as<double>()) : common(array.as<float>());
}

}  // namespace traj_integrator
