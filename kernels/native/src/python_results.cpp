#include "python_results.h"

#include <algorithm>

namespace traj_integrator {

int64_t elements_of(const Array (&outputs)[kOutputs]) {
  int64_t most = 0;
  for (const Array& output : outputs) most = std::max(most, output.given() ? output.size() : 0);
  return most;
}

PyObject* handed_over(Result* results, Py_ssize_t count, Py_ssize_t before) {
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

}  // namespace traj_integrator
