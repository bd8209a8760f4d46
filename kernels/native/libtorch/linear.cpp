#include "linear.h"

#include <ATen/Parallel.h>
#include <ATen/ops/empty.h>
#include <c10/util/Exception.h>

#include <vector>

namespace traj_integrator {
namespace {

using at::Tensor;

bool is_half(at::ScalarType dtype) { return dtype == at::kHalf || dtype == at::kBFloat16; }

// Halves are computed in a type that rounds nothing they can represent.
at::ScalarType wide(const Linear& linear) { return linear.spline != nullptr ? at::kDouble : at::kFloat; }

template <size_t count>
std::array<Tensor, count> converted(std::array<Tensor, count> tensors, at::ScalarType dtype) {
  for (Tensor& tensor : tensors) tensor = tensor.defined() ? tensor.to(dtype) : tensor;
  return tensors;
}

// Tensors as arrays, alive for one call.
class Arrays {
 public:
  Array read(const Tensor& tensor) { return tensor.defined() ? array(tensor.contiguous()) : Array{}; }
  Array write(const Tensor& tensor) { return tensor.defined() ? array(tensor) : Array{}; }

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

Call call_of(const Linear& linear, Arrays& arrays) {
  Call call;
  call.map = linear.map;
  call.spline = linear.spline;
  call.truncate_terminal = linear.truncate_terminal;
  call.has_goal = linear.rows[1] >= 0;
  call.dt = arrays.read(linear.dt.to(at::kDouble));
  for (int end = 0; end < 2; ++end) call.index[end] = arrays.read(linear.index[end]);
  return call;
}

// Tensors of the caller are neither resized nor broadcast to.
void expect_outputs(const Linear& linear, const Tensor& action, const Four& into) {
  if (action.dim() != 3) return;  // which the loops refuse
  const int64_t actions = action.size(1);
  const int64_t rows = linear.spline != nullptr ? linear.spline->rows(actions) : output_horizon(linear.map, actions);
  const std::array<int64_t, 3> shape{action.size(0), rows, action.size(2)};
  for (const Tensor& output : into) {
    TORCH_CHECK_VALUE(!output.defined() || (output.sizes() == at::IntArrayRef(shape) && output.is_contiguous() &&
                                            output.scalar_type() == action.scalar_type()),
                      "out: expected contiguous ", action.scalar_type(), " tensors of shape ", at::IntArrayRef(shape), ", got ",
                      output.scalar_type(), " of shape ", output.sizes(), ", strides ", output.strides());
  }
}

}  // namespace

void Linear::take_sizes(const Nine& inputs) {
  actions = inputs[0].dim() == 3 ? inputs[0].size(1) : 0;
  for (int end = 0; end < 2; ++end) {
    const Tensor given = first_defined(at::TensorList(inputs).slice(1 + 4 * end, 4));
    rows[end] = given.defined() && given.dim() > 0 ? given.size(0) : -1;
  }
}

Four launch_forward(const Linear& linear, const Nine& inputs, const Four& into) {
  const Tensor& action = inputs[0];
  expect_outputs(linear, action, into);
  if (is_half(action.scalar_type())) {
    Four outputs = launch_forward(linear, converted(inputs, wide(linear)));
    for (size_t k = 0; k < 4; ++k) {
      outputs[k] = into[k].defined() ? into[k].copy_(outputs[k]) : outputs[k].to(action.scalar_type());
    }
    return outputs;
  }
  Arrays arrays;
  Call call = call_of(linear, arrays);
  call.action = arrays.read(action);
  run([&](int) { expect_action(call.action); });
  for (size_t k = 0; k < kEnds; ++k) call.ends[k] = arrays.read(inputs[1 + k]);
  Four outputs = into;
  for (size_t k = 0; k < 4; ++k) {
    const auto& shape = call.action.shape;
    if (!outputs[k].defined()) outputs[k] = at::empty({shape[0], call.rows(shape[1]), shape[2]}, action.options());
    call.outputs[k] = arrays.write(outputs[k]);
  }
  run([&](int threads) { forward(call, threads); });
  for (const Tensor& output : into) {
    if (output.defined() && !output.is_inference()) output.unsafeGetTensorImpl()->bump_version();
  }
  return outputs;
}

Nine launch_vjp(const Linear& linear, const Four& upstream, const Needs& needs) {
  const Tensor like = first_defined(upstream);
  TORCH_CHECK_VALUE(like.defined() && like.dim() == 3, "upstream: expected at least one tensor [batch, rows, dof]");
  if (is_half(like.scalar_type())) {
    return converted(launch_vjp(linear, converted(upstream, wide(linear)), needs), like.scalar_type());
  }
  Arrays arrays;
  Call call = call_of(linear, arrays);
  for (size_t k = 0; k < 4; ++k) call.outputs[k] = arrays.read(upstream[k]);
  Nine gradients;
  if (needs[0]) gradients[0] = at::empty({like.size(0), linear.actions, like.size(2)}, like.options());
  call.action = arrays.write(gradients[0]);
  for (size_t k = 0; k < kEnds; ++k) {
    if (needs[1 + k]) gradients[1 + k] = at::empty({linear.rows[k / kStartRows], like.size(2)}, like.options());
    call.ends[k] = arrays.write(gradients[1 + k]);
  }
  run([&](int threads) { vjp(call, threads); });
  return gradients;
}

}  // namespace traj_integrator
