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
  static constexpr size_t kMost = 6;
  PyTypeObject* type_;
};

// A step's data for its node of autograd: outputs, or the memory that holds them, what it keeps, and the tensors it saves.
enum { kOutputsOf, kMemoryOf, kCallOf, kSavedOf, kRecorded };

// Data of autograd's node that it does not save: seconds is dt, or None if that is a tensor; -1 goal rows: there is none. The
// buffer is a tensor for the gradient of the action, its version, and whether the action is a leaf; or None. It is written to,
// not computed from: `save_for_backward` would treat that as an error.
enum { kMapOf, kSecondsOf, kActionsOf, kStartRowsOf, kGoalRowsOf, kBufferOf, kKept };
const Record& kept_call() {
  static const Record type("traj_integrator_ros.KeptCall",
                           {"map", "seconds", "action_horizon", "start_rows", "goal_rows", "buffer"});
  return type;
}
enum { kTensorOfBuffer, kVersionOfBuffer, kIsLeafOfBuffer };

// The tensors it saves: none, indices and steps, or also dt itself and the values, for the gradient of dt.
constexpr Py_ssize_t kSavedSteps = 2, kSavedDt = 3, kSavedValues = 4, kSavedForDt = kSavedValues + kValues;

// Attributes of a `FastMap`.
const Name& kind_of_map() {
  static const Name name("kind");
  return name;
}

// The float that all elements are of a tensor of at most one dimension; NaN where there is none.
double common_number(PyObject* tensor, int64_t& count) {
  Array array;
  if (!is_tensor(tensor) || requires_grad(tensor) || !read_tensor(tensor, array) || !array.is_real()) return NAN;
  count = array.size();
  if (array.dims > 1 || count == 0) return NAN;
  const auto common = [&](const auto* values) {
    return std::all_of(values + 1, values + count, [&](auto value) { return value == values[0]; }) ? double{values[0]} : NAN;
  };
  return array.type == 'd' ? common(array.as<double>()) : common(array.as<float>());
}

// The caller's memory without graphs; null where autograd cannot follow what is written to it.
Object memories_of(PyObject* buffers) {
  const Py_ssize_t count = Arguments::size_of(buffers);
  Object memory(count == kOutputs ? PyTuple_New(count) : nullptr);
  for (Py_ssize_t k = 0; memory.get() != nullptr && k < count; ++k) {
    const Object plain = memory_of(Arguments::item(buffers, k));
    if (plain.get() == nullptr) return Object();
    PyTuple_SetItem(memory.get(), k, Py_NewRef(plain.get()));
  }
  return memory;
}

// Whether the gradient of the action can be written to a buffer.
bool is_for_gradient(PyObject* buffer, const Array& action) {
  Array array;
  if (memory_of(buffer).get() == nullptr || !read_tensor(buffer, array)) return false;
  return array.type == action.type && array.dims == action.dims &&
         std::equal(array.shape, array.shape + array.dims, action.shape);
}

// The outputs, or views of the memory that they have been written to; null with a Python error.
PyObject* outputs_or_views(PyObject* outputs, PyObject* memory) {
  if (memory == Py_None) return Py_NewRef(outputs);
  PyObject* const views = PyTuple_New(kOutputs);
  for (int k = 0; views != nullptr && k < kOutputs; ++k) {
    const Object view = view_of(PyTuple_GetItem(memory, k));
    if (view.get() == nullptr) return Py_DECREF(views), PyErr_NoMemory();
    PyTuple_SetItem(views, k, Py_NewRef(view.get()));
  }
  return views;
}

struct Step {
  PyObject *map, *apply, *values, *indices;
  PyObject *dt, *dt_per;       // steps: `map.steps(dt, dt_per)`, where dt is no number
  PyObject *memory, *gradient;  // or None
  int64_t lengths = 1;         // that dt had: one, or those of actions or outputs

  PyObject* run() const;
};

PyObject* Step::run() const {
  static const Name steps_name("steps"), results_name("results");
  const bool is_number = PyFloat_CheckExact(dt) != 0;
  const Object kind = kind_of_map().of(map), type = results_name.of(map);
  const Object made(is_number ? nullptr : PyObject_CallFunctionObjArgs(steps_name.of(map).get(), dt, dt_per, nullptr));
  PyObject* const steps = is_number ? dt : made.get();
  PyObject* const inputs[] = {kind.get(), values, indices, steps};
  Call call;
  Arguments given;
  if (steps == nullptr || kind.get() == nullptr || type.get() == nullptr) Py_RETURN_NONE;
  if (!given.take_inputs(inputs, call) || !given.take_outputs(memory, call.outputs)) Py_RETURN_NONE;
  Shown shown;
  bool fits = call.action.given();
  const auto& shape = call.action.shape;
  fits = fits && (lengths == 1 || (call.action.dims == 3 && (lengths == shape[1] || lengths == call.rows(shape[1]))));
  for (int k = 0; k < kValues; ++k) fits = fits && shown.add(Arguments::item(values, k));
  fits = fits && (is_number || shown.add(dt));
  fits = fits && (memory == Py_None || !shown.is_dt_needed());
  fits = fits && (gradient == Py_None || is_for_gradient(gradient, call.action));
  PyObject *const start_index = Arguments::item(indices, 0), *const goal_index = Arguments::item(indices, 1);
  for (PyObject* const index : {start_index, goal_index}) fits = fits && (index == Py_None || is_tensor(index));
  // The first rows give the number of rows.
  const Array &start = call.ends[0], &goal = call.ends[kStartRows];
  fits = fits && start.given() && (call.has_goal ? goal.given() : goal_index == Py_None);
  if (!fits) Py_RETURN_NONE;
  const Object outputs(forward_results(call));
  if (outputs.get() == nullptr) return none_if_unfit();
  if (memory != Py_None && !mark_written(memory)) return nullptr;
  if (!shown.are_needed()) {
    PyObject* const shown_outputs = outputs_or_views(outputs.get(), memory);
    return shown_outputs == nullptr ? nullptr : as_type(type.get(), Object(shown_outputs).get());
  }
  const bool is_saved = !is_number || start_index != Py_None || goal_index != Py_None;
  const Py_ssize_t count_saved = shown.is_dt_needed() ? kSavedForDt : is_saved ? kSavedDt : 0;
  const Object saved(PyTuple_New(count_saved));
  PyObject* to_save[kSavedForDt] = {start_index, goal_index, is_number ? Py_None : steps, dt};
  for (int k = 0; k < kValues; ++k) to_save[kSavedValues + k] = Arguments::item(values, k);
  for (Py_ssize_t k = 0; saved.get() != nullptr && k < count_saved; ++k) PyTuple_SetItem(saved.get(), k, Py_NewRef(to_save[k]));
  const auto number = [](int64_t value) { return Object(PyLong_FromLongLong(value)); };
  const auto rows_of = [&](const Array& rows) { return number(rows.given() ? rows.shape[0] : -1); };
  const Object actions = number(call.action.shape[1]), start_rows = rows_of(start), goal_rows = rows_of(goal);
  const Object buffer(gradient == Py_None ? Py_NewRef(Py_None)
                                          : PyTuple_Pack(3, gradient, number(version_of(gradient)).get(),
                                                         is_leaf(Arguments::item(values, 0)) ? Py_True : Py_False));
  const Object kept = kept_call().of(
      {map, is_number ? dt : Py_None, actions.get(), start_rows.get(), goal_rows.get(), buffer.get()});
  if (kept.get() == nullptr || saved.get() == nullptr) return PyErr_NoMemory();
  const Object bundle(PyTuple_Pack(kRecorded, outputs.get(), memory, kept.get(), saved.get()));
  if (bundle.get() == nullptr) return PyErr_NoMemory();
  PyObject* const recorded = shown.apply(apply, bundle.get());
  return recorded == nullptr ? none_if_unfit() : as_type(type.get(), Object(recorded).get());
}

}  // namespace

// step(map, apply, values, indices, dt, dt_per) -> map.results(outputs)
//
// The outputs, through `apply` where autograd records them. `map.steps(dt, dt_per)` makes float64 `[1 or B, 1 or Ha]` of a dt
// that is no float, without a gradient. None, and nothing is done, if something is not a tensor, or not ordinary.
PyObject* py_step(PyObject*, PyObject* const* args, Py_ssize_t count) {
  enum { kMap, kApply, kValuesAt, kIndices, kDt, kDtPer, kMost };
  if (count != kMost) return unfit();
  PyObject* const dt_per = args[kDtPer];
  if (!is_ordinary() || !PyUnicode_Check(dt_per) ||
      (PyUnicode_CompareWithASCIIString(dt_per, "step") != 0 && PyUnicode_CompareWithASCIIString(dt_per, "trajectory") != 0)) {
    Py_RETURN_NONE;
  }
  return Step{args[kMap], args[kApply], args[kValuesAt], args[kIndices], args[kDt], dt_per, Py_None, Py_None}.run();
}

// step_into(map, apply, values, indices, dt, is_rate, memory, gradient) -> map.results(views of the memory)
//
// `step` into four tensors, with one for the gradient of the action, or None. dt may be 1 / dt. Where all its elements are one
// number, one for each action or output, it is that number: operations of torch take longer than to look.
PyObject* py_step_into(PyObject*, PyObject* const* args, Py_ssize_t count) {
  enum { kMap, kApply, kValuesAt, kIndices, kDt, kIsRate, kMemory, kGradient, kMost };
  static PyObject* const of_steps[] = {PyUnicode_InternFromString("step"), PyUnicode_InternFromString("rate")};
  if (count != kMost) return unfit();
  if (!is_ordinary()) Py_RETURN_NONE;
  const bool is_rate = args[kIsRate] == Py_True;
  int64_t lengths = 1;
  const double number = PyFloat_CheckExact(args[kDt]) != 0 ? PyFloat_AsDouble(args[kDt]) : common_number(args[kDt], lengths);
  const bool is_number = !std::isnan(number);
  const Object dt(is_number ? PyFloat_FromDouble(is_rate ? 1 / number : number) : Py_NewRef(args[kDt]));
  const Object memory = memories_of(args[kMemory]);
  if (memory.get() == nullptr) Py_RETURN_NONE;
  return Step{args[kMap], args[kApply], args[kValuesAt], args[kIndices], dt.get(), of_steps[is_rate ? 1 : 0], memory.get(),
              args[kGradient], is_number ? lengths : 1}
      .run();
}

// record(ctx, recording, *tensors) -> outputs, with what `backward` takes in ctx
//
// The maps are linear: that is the indices, dt and numbers of rows.
PyObject* py_record(PyObject*, PyObject* const* args, Py_ssize_t count) {
  if (count < 2 || !PyTuple_Check(args[1]) || PyTuple_Size(args[1]) != kRecorded) return unfit();
  static const Name materialize_grads("materialize_grads"), call("call"), save_for_backward("save_for_backward");
  const auto part = [&](int k) { return PyTuple_GetItem(args[1], k); };
  if (!materialize_grads.set(args[0], Py_False) || !call.set(args[0], part(kCallOf))) return nullptr;
  if (PyTuple_Size(part(kSavedOf)) != 0) {
    PyObject* const done = PyObject_CallObject(save_for_backward.of(args[0]).get(), part(kSavedOf));
    if (done == nullptr) return nullptr;
    Py_DECREF(done);
  }
  return outputs_or_views(part(kOutputsOf), part(kMemoryOf));
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

// backward(ctx, upstream) -> the gradients that `apply` returns
//
// That of the action is written to its buffer, too. The buffer itself is returned only if nobody else can end up owning its
// memory: see `with_gradient_buffer`. None, and nothing is done, if they are differentiated again, or something is not ordinary.
PyObject* py_backward(PyObject*, PyObject* const* args, Py_ssize_t count) {
  if (count != 2 || is_grad_enabled() || !is_ordinary()) Py_RETURN_NONE;
  static const Name call_name("call"), saved_tensors("saved_tensors"), needs_input_grad("needs_input_grad");
  const Object kept = call_name.of(args[0]), saved = saved_tensors.of(args[0]), needs = needs_input_grad.of(args[0]);
  if (kept.get() == nullptr || saved.get() == nullptr || needs.get() == nullptr) Py_RETURN_NONE;
  if (PyTuple_Size(kept.get()) != kKept) return unfit();
  const auto kept_at = [&](int part) { return PyTuple_GetItem(kept.get(), part); };
  const auto number = [&](int part) { return PyLong_AsLongLong(kept_at(part)); };
  const int64_t actions = number(kActionsOf), rows[2] = {number(kStartRowsOf), number(kGoalRowsOf)};
  PyObject *const map = kept_at(kMapOf), *const seconds = kept_at(kSecondsOf), *const buffer = kept_at(kBufferOf);
  const Object indices(PyTuple_GetSlice(saved.get(), 0, kSavedSteps));
  PyObject* const dt = seconds == Py_None ? Arguments::item(saved.get(), kSavedSteps) : seconds;
  const Object kind = kind_of_map().of(map);
  PyObject* const inputs[] = {kind.get(), args[1], indices.get(), dt};
  const Py_ssize_t used = PyTuple_Size(needs.get()) - 1;
  const auto is_needed = [&](int k) { return k < used && PyTuple_GetItem(needs.get(), 1 + k) == Py_True; };
  // Written since, it may hold a gradient that has not been accumulated yet.
  PyObject* const into = is_needed(0) ? Arguments::item(buffer, kTensorOfBuffer) : Py_None;
  const bool is_written = into != Py_None && version_of(into) == PyLong_AsLongLong(Arguments::item(buffer, kVersionOfBuffer));
  const bool is_returned = is_written && Arguments::item(buffer, kIsLeafOfBuffer) == Py_True;
  Call call;
  Arguments given;
  Array memory;
  if (kind.get() == nullptr || !given.take_upstream(inputs, call)) Py_RETURN_NONE;
  if (is_written && !given.take(into, memory, true)) Py_RETURN_NONE;
  call.has_goal = rows[1] >= 0;
  if (is_returned) call.action = memory;
  int64_t sizes[kValues];
  bool is_linear_needed = false;
  for (int k = 0; k < kValues; ++k) {
    sizes[k] = !is_needed(k) || (k == 0 && is_returned) ? -1 : k == 0 ? actions : rows[(k - 1) / kStartRows];
    is_linear_needed = is_linear_needed || is_needed(k);
  }
  Result results[kValues + 1];
  if (is_linear_needed && !make_gradients(call, sizes, results)) return none_if_unfit();
  if (is_needed(kValues)) {
    const Object values(PyTuple_GetSlice(saved.get(), kSavedValues, kSavedForDt));
    PyObject* const all[] = {kind.get(), values.get(), indices.get(), dt};
    Call with_inputs;
    Array as_given;
    if (!given.take_inputs(all, with_inputs) || !given.take(Arguments::item(saved.get(), kSavedDt), as_given)) Py_RETURN_NONE;
    std::copy_n(call.outputs, kOutputs, with_inputs.outputs);
    if (elements_of(call.outputs) == 0 || !make_dt_gradient(with_inputs, as_given, results[kValues])) return none_if_unfit();
  }
  if (is_written) {
    const size_t bytes = static_cast<size_t>(memory.size()) * (memory.type == 'd' ? sizeof(double) : sizeof(float));
    if (!is_returned) std::memcpy(memory.data, call.action.data, bytes);
    const Object written(PyTuple_Pack(1, into));
    if (written.get() == nullptr || !mark_written(written.get())) return nullptr;
  }
  PyObject* const gradients = handed_over(results, used, 1);
  if (gradients != nullptr && is_returned) PyTuple_SetItem(gradients, 1, Py_NewRef(into));
  return gradients;
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
