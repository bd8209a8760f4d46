#include "python_results.h"

#include <algorithm>

namespace traj_integrator {

int64_t elements_of(const Array (&outputs)[kOutputs]) {
  int64_t most = 0;
  for (const Array& output : outputs) most = std::max(most, output.given() ? output.size() : 0);
  return most;
}

PyObject* handed_over(Result* results, Py_ssize_t count) {
  PyObject* const tuple = PyTuple_New(count);
  for (Py_ssize_t k = 0; tuple != nullptr && k < count; ++k) {
    PyObject* const item = results[k].is_made() ? results[k].hand_over() : Py_NewRef(Py_None);
    if (item == nullptr) {
      Py_DECREF(tuple);
      return nullptr;
    }
    PyTuple_SetItem(tuple, k, item);
  }
  return tuple;
}

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

bool make_gradients(Call& call, const int64_t (&sizes)[kValues], Result* results) {
  return run(elements_of(call.outputs), [&](int threads) {
    const Array* const like = std::find_if(call.outputs, call.outputs + kOutputs, [](const Array& a) { return a.given(); });
    // otherwise `vjp` reports the error
    const bool fits = like != call.outputs + kOutputs && like->is_real() && like->dims == 3;
    for (int k = 0; fits && k < kValues; ++k) {
      if (sizes[k] < 0) continue;
      const int64_t batch = like->shape[0], dof = like->shape[2];
      if (k == 0) {
        results[k].make(like->type, {batch, sizes[k], dof}, call.action,
                        {&call.outputs[0], &call.outputs[1], &call.outputs[2], &call.outputs[3]});
      } else {
        results[k].make(like->type, {sizes[k], dof}, value_of(call, k));
      }
    }
    vjp(call, threads);
  });
}

// records(*objects) -> whether autograd records what becomes of tensors, numbers and None; None if something has to see torch's
// operators, and for other objects
PyObject* py_records(PyObject*, PyObject* const* args, Py_ssize_t count) {
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

}  // namespace traj_integrator
