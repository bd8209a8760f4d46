// The module `_loops`: the maps on arrays that are borrowed from Python for one call, without torch. Autograd is
// Python's. Functions raise TypeError, ValueError or IndexError for arguments that do not fit, and have written nothing
// then.
#include <cmath>
#include <memory>
#include <new>
#include <vector>

#include "call.h"
#include "instruction_set.h"
#include "python_torch.h"

namespace traj_integrator {
namespace {

// The linear inputs of a map, and their gradients: action, position to jerk of the start, and of the goal.
constexpr int kValues = 1 + kEnds;
constexpr const char* kFormName = "traj_integrator.SplineForm";

Array& value_of(Call& call, int k) { return k == 0 ? call.action : call.ends[k - 1]; }

void fits(bool is_fit) {
  if (!is_fit) {
    throw Misfit{Wrong::kValue, "expected contiguous arrays or tensors on the CPU, of float32, float64, int32 or int64"};
  }
}

// The length of a tuple or list; 0 for None, -1 for anything else.
Py_ssize_t size_of(PyObject* objects) {
  return PyTuple_Check(objects) ? PyTuple_Size(objects) : PyList_Check(objects) ? PyList_Size(objects) : objects == Py_None ? 0 : -1;
}
// None beyond the end.
PyObject* item(PyObject* objects, Py_ssize_t k) {
  if (k >= size_of(objects)) return Py_None;
  return PyList_Check(objects) ? PyList_GetItem(objects, k) : PyTuple_GetItem(objects, k);
}

// The arrays of one call. Every function throws a Misfit if an argument is no array.
class Arguments {
 public:
  Arguments(PyObject* const* given, Py_ssize_t count, Py_ssize_t wanted) : next_(given) { fits(count == wanted); }

  PyObject* next() { return *next_++; }
  bool flag() { return next() == Py_True; }

  void take(PyObject* object, Array& array, bool writable = false) {
    if (!is_tensor(object)) return fits(buffers_.take(object, array, writable));
    if (read_tensor(object, array)) return;
    fits(!writable);
    copies_.push_back(readable(object));  // An input may be a tensor of any strides: its copy is kept for the call.
    fits(copies_.back().get() != nullptr && read_tensor(copies_.back().get(), array));
  }

  // A tuple or list of at most so many, or None.
  template <size_t most>
  void take(PyObject* objects, Array (&arrays)[most], bool writable = false) {
    const Py_ssize_t count = size_of(objects);
    fits(0 <= count && count <= static_cast<Py_ssize_t>(most));
    for (Py_ssize_t k = 0; k < count; ++k) take(item(objects, k), arrays[k], writable);
  }

  // Four arrays; or one array that stacks them; or None.
  void take_outputs(PyObject* objects, Array (&outputs)[kOutputs]) {
    if (size_of(objects) >= 0) {
      take(objects, outputs, true);
      return fits(objects == Py_None || outputs[0].given());
    }
    Array all;
    take(objects, all, true);
    fits(all.dims == 4 && all.is_real() && all.shape[0] == kOutputs);
    const int64_t bytes = all.size() / kOutputs * (all.type == 'd' ? sizeof(double) : sizeof(float));
    for (int k = 0; k < kOutputs; ++k) {
      outputs[k] = {all.as<char>() + k * bytes, all.type, 3, {all.shape[1], all.shape[2], all.shape[3]}};
    }
  }

  // A number of a map, or what `spline_form` returned.
  void take_map(Call& call) {
    PyObject* const object = next();
    if (PyCapsule_IsValid(object, kFormName) != 0) {
      call.spline = static_cast<const SplineForm*>(PyCapsule_GetPointer(object, kFormName));
      return;
    }
    const long long number = PyLong_Check(object) ? PyLong_AsLongLong(object) : -1;
    fits(number >= 0 && number < static_cast<long long>(std::size(kControlMaps)));
    call.map = static_cast<ControlMap>(number);
  }

  // Indices, and a number of seconds, or an array of them.
  void take_steps(Call& call) {
    take(next(), call.index);
    PyObject* const dt = next();
    if (!PyFloat_CheckExact(dt)) return take(dt, call.dt);
    seconds_ = PyFloat_AsDouble(dt);
    fits(seconds_ > 0 && std::isfinite(seconds_));
    call.dt = {&seconds_, 'd', 2, {1, 1}};
  }

  // The arguments of every map: map, values, indices, dt (see `Inputs` in types.py). Goal rows that are all None are no
  // goal; missing ends of tuples are None.
  void take_inputs(Call& call) {
    take_map(call);
    PyObject* const values = next();
    fits(size_of(values) <= kValues);
    for (int k = 0; k < kValues; ++k) {
      take(item(values, k), value_of(call, k));
      call.has_goal = call.has_goal || (k > kStartRows && call.ends[k - 1].given());
    }
    take_steps(call);
  }

 private:
  PyObject* const* next_;
  BorrowedBuffers<> buffers_;
  std::vector<Object> copies_;
  double seconds_ = 0;
};

// Runs a call on as many threads as torch would, without Python's lock if releasing it pays.
template <class Compute>
void run(int64_t elements, const Compute& compute) {
  const bool is_large = elements >= 4096;
  int threads = 1;
  if (is_large && torch.get_num_threads != nullptr) {
    const Object count(PyObject_CallObject(torch.get_num_threads, nullptr));
    if (count.get() != nullptr) threads = static_cast<int>(PyLong_AsLong(count.get()));
  }
  aside(is_large, [&] { compute(threads); });
}

// The largest number of elements of these arrays.
int64_t elements_of(const Array (&outputs)[kOutputs]) {
  int64_t most = 0;
  for (const Array& output : outputs) most = std::max(most, output.given() ? output.size() : 0);
  return most;
}

// The arrays that were made here, as tensors; None in place of the others.
template <size_t count>
PyObject* handed_over(Result (&results)[count]) {
  PyObject* const tuple = PyTuple_New(count);
  for (size_t k = 0; tuple != nullptr && k < count; ++k) {
    PyObject* const one = results[k].is_made() ? results[k].hand_over() : Py_NewRef(Py_None);
    if (one == nullptr) {
      Py_DECREF(tuple);
      return nullptr;
    }
    PyTuple_SetItem(tuple, static_cast<Py_ssize_t>(k), one);
  }
  return tuple;
}

// forward(map, values, indices, dt, outputs) -> outputs that were None, made here
PyObject* py_forward(PyObject* const* args, Py_ssize_t count) {
  Call call;
  Arguments given(args, count, 5);
  given.take_inputs(call);
  given.take_outputs(given.next(), call.outputs);
  call.has_new_outputs = !call.outputs[0].given();
  Result results[kOutputs];
  run(call.action.size(), [&](int threads) {
    expect_action(call.action);
    const auto& shape = call.action.shape;
    for (int k = 0; call.has_new_outputs && k < kOutputs; ++k) {
      results[k].make(call.action.type, {shape[0], call.rows(shape[1]), shape[2]}, call.outputs[k],
                      {&call.action, &call.outputs[0], &call.outputs[1], &call.outputs[2]});
    }
    forward(call, threads);
  });
  return handed_over(results);
}

// vjp(map, upstream, indices, dt, truncate_terminal_gradient, has_goal, gradients) -> those that were made here
//
// Gradients are those of the values, each an array to write to, a number of rows, then it is made here, or None.
PyObject* py_vjp(PyObject* const* args, Py_ssize_t count) {
  Call call;
  Arguments given(args, count, 7);
  given.take_map(call);
  given.take(given.next(), call.outputs);
  given.take_steps(call);
  call.truncate_terminal = given.flag();
  call.has_goal = given.flag();
  PyObject* const gradients = given.next();
  fits(size_of(gradients) <= kValues);
  int64_t sizes[kValues];
  for (int k = 0; k < kValues; ++k) {
    PyObject* const object = item(gradients, k);
    sizes[k] = PyLong_Check(object) ? PyLong_AsLongLong(object) : -1;
    if (!PyLong_Check(object)) given.take(object, value_of(call, k), true);
  }
  Result results[kValues];
  run(elements_of(call.outputs), [&](int threads) {
    const Array* const like = std::find_if(call.outputs, call.outputs + kOutputs, [](const Array& a) { return a.given(); });
    // otherwise `vjp` reports the error
    const bool is_fit = like != call.outputs + kOutputs && like->is_real() && like->dims == 3;
    for (int k = 0; is_fit && k < kValues; ++k) {
      const int64_t batch = like->shape[0], dof = like->shape[2];
      if (sizes[k] >= 0 && k == 0) {
        results[k].make(like->type, {batch, sizes[k], dof}, call.action,
                        {&call.outputs[0], &call.outputs[1], &call.outputs[2], &call.outputs[3]});
      } else if (sizes[k] >= 0) {
        results[k].make(like->type, {sizes[k], dof}, value_of(call, k));
      }
    }
    vjp(call, threads);
  });
  return handed_over(results);
}

// dt_gradient(map, values, indices, dt, upstream, result)
PyObject* py_dt_gradient(PyObject* const* args, Py_ssize_t count) {
  Call call;
  Array result;
  Arguments given(args, count, 6);
  given.take_inputs(call);
  given.take(given.next(), call.outputs);
  given.take(given.next(), result, true);
  run(elements_of(call.outputs), [&](int threads) { dt_gradient(call, result, threads); });
  Py_RETURN_NONE;
}

// quadratic_cost(map, values, indices, dt, terms, cost, grad_action, grad_ends)
//
// Terms have six for each output: weight, target, terminal weight, limit weight, lower and upper limit. Writes the cost `[B]`
// and, where they are given, gradients of the action, and of start and goal: eight `[B, D]` in double, not summed over a pool.
PyObject* py_quadratic_cost(PyObject* const* args, Py_ssize_t count) {
  CostCall call;
  Arguments given(args, count, 8);
  given.take_inputs(call.map);
  PyObject* const terms = given.next();
  fits(size_of(terms) == kOutputs);
  for (int k = 0; k < kOutputs; ++k) given.take(item(terms, k), call.terms[k]);
  given.take(given.next(), call.cost, true);
  given.take(given.next(), call.grad_action, true);
  given.take(given.next(), call.grad_ends, true);
  run(call.map.action.size(), [&](int threads) { quadratic_cost(call, threads); });
  Py_RETURN_NONE;
}

// spline_form(ignores_last, weights, state_weights) -> an object that replaces a map's number
PyObject* py_spline_form(PyObject* const* args, Py_ssize_t count) {
  Arguments given(args, count, 3);
  const bool ignores_last = given.flag();
  Array weights, states;
  given.take(given.next(), weights);
  given.take(given.next(), states);
  fits(weights.type == 'd' && weights.dims == 2 && states.type == 'd' && states.dims == 2 && states.shape[1] == kOutputs);
  const int64_t degree = (weights.shape[1] + 2) / 4, steps = weights.shape[0] - 1, head = states.shape[0];
  fits(3 <= degree && degree <= 5 && weights.shape[1] == 4 * degree - 2 && steps >= 1 && head >= degree);
  const auto copied = [](const Array& table) { return std::vector<double>(table.as<double>(), table.as<double>() + table.size()); };
  auto form = std::make_unique<SplineForm>(SplineForm{degree, steps, head, ignores_last, copied(weights), copied(states)});
  PyObject* const capsule = PyCapsule_New(form.get(), kFormName, [](PyObject* owned) {
    delete static_cast<SplineForm*>(PyCapsule_GetPointer(owned, kFormName));
  });
  if (capsule != nullptr) static_cast<void>(form.release());
  return capsule;
}

// records(*objects) -> whether autograd records what becomes of tensors, numbers and None; None if something has to see torch's
// operators, and for other objects
PyObject* py_records(PyObject* const* args, Py_ssize_t count) {
  const bool is_enabled = is_grad_enabled();
  bool is_needed = false;
  if (!is_ordinary()) Py_RETURN_NONE;
  for (PyObject* const* object = args; object != args + count; ++object) {
    if (is_tensor(*object)) {
      is_needed = is_needed || (is_enabled && requires_grad(*object));
    } else if (*object != Py_None && PyFloat_CheckExact(*object) == 0) {
      Py_RETURN_NONE;
    }
  }
  return PyBool_FromLong(is_needed);
}

PyObject* py_instruction_set(PyObject* const*, Py_ssize_t) { return PyUnicode_FromString(instruction_set_name()); }

template <PyObject* (*function)(PyObject* const*, Py_ssize_t)>
PyMethodDef method_of(const char* name, const char* what) {
  const auto called = +[](PyObject*, PyObject* const* args, Py_ssize_t count) -> PyObject* {
    try {
      return function(args, count);
    } catch (const Misfit& misfit) {
      PyObject* const errors[] = {PyExc_TypeError, PyExc_ValueError, PyExc_IndexError};
      PyErr_SetString(errors[static_cast<int>(misfit.what)], misfit.text.c_str());
    } catch (const std::bad_alloc&) {
      PyErr_NoMemory();
    }
    return nullptr;
  };
  return {name, as_method(called), METH_FASTCALL, what};
}

PyMethodDef methods[] = {
    method_of<py_forward>("forward", "A map of actions, into its outputs."),
    method_of<py_vjp>("vjp", "Gradients of actions, start and goal from those of the outputs."),
    method_of<py_dt_gradient>("dt_gradient", "The gradient of dt."),
    method_of<py_quadratic_cost>("quadratic_cost", "The cost of trajectories and its gradients."),
    method_of<py_spline_form>("spline_form", "A spline in place of the number of a map."),
    method_of<py_records>("records", "Whether autograd records what becomes of the arguments."),
    method_of<py_instruction_set>("instruction_set", "baseline or avx2."),
    {"use", &py_use, METH_VARARGS, "Says what tensors are."},
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
