#include "launch.h"

#include <ATen/Parallel.h>
#include <ATen/ops/empty.h>
#include <c10/util/Exception.h>

#include <vector>

#include "call.h"

namespace traj_integrator {
namespace {

using at::Tensor;

bool is_half(at::ScalarType dtype) { return dtype == at::kHalf || dtype == at::kBFloat16; }

// Halves are computed in a type in which nothing is rounded that they keep.
at::ScalarType wide(const Map& map) { return map.spline != nullptr ? at::kDouble : at::kFloat; }

// Tensors as arrays, alive for one call.
class Arrays {
 public:
  Array read(const Tensor& tensor) { return tensor.defined() ? array(tensor.contiguous()) : Array{}; }
  Array write(const Tensor& tensor) {
    TORCH_CHECK_VALUE(!tensor.defined() || tensor.is_contiguous(), "out: expected contiguous tensors, got strides ",
                      tensor.strides());
    return tensor.defined() ? array(tensor) : Array{};
  }

 private:
  Array array(const Tensor& tensor) {
    TORCH_CHECK_VALUE(tensor.device().is_cpu(), "expected a tensor on the CPU, got one on ", tensor.device());
    TORCH_CHECK_VALUE(tensor.dim() <= Array::kMostDims, "expected at most three dimensions, got ", tensor.sizes());
    Array result;
    switch (tensor.scalar_type()) {
      case at::kFloat: result.type = 'f'; break;
      case at::kDouble: result.type = 'd'; break;
      case at::kInt: result.type = 'i'; break;
      case at::kLong: result.type = 'l'; break;
      default: TORCH_CHECK_TYPE(false, "expected float16, bfloat16, float32 or float64, got ", tensor.scalar_type());
    }
    result.data = const_cast<void*>(tensor.const_data_ptr());  // written to only if it is a result
    result.dims = static_cast<int>(tensor.dim());
    std::copy_n(tensor.sizes().begin(), result.dims, result.shape);
    held_.push_back(tensor);
    return result;
  }

  std::vector<Tensor> held_;
};

template <class Compute>
void run(const Compute& compute) {
  try {
    compute(at::get_num_threads());
  } catch (const Misfit& misfit) {
    TORCH_CHECK_INDEX(misfit.what != Wrong::kIndex, misfit.text);
    TORCH_CHECK_TYPE(misfit.what != Wrong::kType, misfit.text);
    TORCH_CHECK_VALUE(false, misfit.text);
  }
}

Call call_of(const Map& map, const Tensor& dt, bool has_goal, Arrays& arrays) {
  Call call;
  call.map = map.map;
  call.spline = map.spline;
  call.truncate_terminal = map.truncate_terminal;
  call.has_goal = has_goal;
  call.dt = arrays.read(dt.to(at::kDouble));
  return call;
}

}  // namespace

Four launch_forward(const Step& step, const Four& into) {
  const at::ScalarType dtype = step.action.scalar_type();
  if (is_half(dtype)) {
    Step widened = step;
    widened.action = step.action.to(wide(step.map));
    for (End* end : {&widened.start, &widened.goal}) {
      for (Tensor& rows : end->rows) rows = rows.defined() ? rows.to(wide(step.map)) : rows;
    }
    Four outputs = launch_forward(widened);
    for (size_t k = 0; k < 4; ++k) outputs[k] = into[k].defined() ? into[k].copy_(outputs[k]) : outputs[k].to(dtype);
    return outputs;
  }
  Arrays arrays;
  Call call = call_of(step.map, step.dt, step.goal.rows[0].defined(), arrays);
  call.action = arrays.read(step.action);
  run([&](int) { expect_action(call.action); });
  for (size_t k = 0; k < 4; ++k) {
    call.start.rows[k] = arrays.read(step.start.rows[k]);
    call.goal.rows[k] = arrays.read(step.goal.rows[k]);
  }
  call.start.index = arrays.read(step.start.index);
  call.goal.index = arrays.read(step.goal.index);
  Four outputs = into;
  for (size_t k = 0; k < 4; ++k) {
    const auto& shape = call.action.shape;
    if (!outputs[k].defined()) outputs[k] = at::empty({shape[0], call.rows(shape[1]), shape[2]}, step.action.options());
    call.outputs[k] = arrays.write(outputs[k]);
  }
  run([&](int threads) { forward(call, threads); });
  for (const Tensor& output : into) {
    if (output.defined() && !output.is_inference()) output.unsafeGetTensorImpl()->bump_version();
  }
  return outputs;
}

Nine launch_vjp(const StepVjp& vjp) {
  Tensor like;
  for (const Tensor& gradient : vjp.upstream) like = gradient.defined() ? gradient : like;
  TORCH_CHECK_VALUE(like.defined() && like.dim() == 3, "upstream: expected at least one tensor [batch, rows, dof]");
  Nine gradients;
  if (is_half(like.scalar_type())) {
    StepVjp widened = vjp;
    for (Tensor& gradient : widened.upstream) gradient = gradient.defined() ? gradient.to(wide(vjp.map)) : gradient;
    gradients = launch_vjp(widened);
    for (Tensor& gradient : gradients) gradient = gradient.defined() ? gradient.to(like.scalar_type()) : gradient;
    return gradients;
  }
  Arrays arrays;
  Call call = call_of(vjp.map, vjp.dt, vjp.goal_rows >= 0, arrays);
  for (size_t k = 0; k < 4; ++k) call.outputs[k] = arrays.read(vjp.upstream[k]);
  call.start.index = arrays.read(vjp.start_index);
  call.goal.index = arrays.read(vjp.goal_index);
  const int64_t batch = like.size(0), dof = like.size(2);
  if (vjp.needs[0]) gradients[0] = at::empty({batch, vjp.actions, dof}, like.options());
  call.action = arrays.write(gradients[0]);
  for (size_t k = 1; k < 9; ++k) {
    if (vjp.needs[k]) gradients[k] = at::empty({k < 5 ? vjp.start_rows : vjp.goal_rows, dof}, like.options());
    (k < 5 ? call.start.rows[k - 1] : call.goal.rows[k - 5]) = arrays.write(gradients[k]);
  }
  run([&](int threads) { traj_integrator::vjp(call, threads); });
  return gradients;
}

}  // namespace traj_integrator
