// Which tensors and situations are ordinary, so that only autograd has to be told about a computation.
#pragma once

#include <ATen/PythonTorchFunctionTLS.h>
#include <ATen/core/Tensor.h>
#include <c10/core/impl/LocalDispatchKeySet.h>
#include <torch/csrc/jit/frontend/tracer.h>

#include "device.h"

namespace traj_integrator {

// A tensor of one kind of device with nothing attached to it but, perhaps, a place in autograd's graph.
template <c10::DispatchKey key, c10::BackendComponent component>
bool is_plain_of(const at::Tensor& tensor) {
  static const c10::DispatchKeySet plain =
      c10::DispatchKeySet(key) | c10::getAutogradRelatedKeySetFromBackend(component) |
      c10::getAutocastRelatedKeySetFromBackend(component) | c10::DispatchKeySet(c10::DispatchKey::ADInplaceOrView);
  return (tensor.key_set() | plain) == plain && !tensor._fw_grad(0).defined();
}

inline bool is_plain_on_cpu(const at::Tensor& tensor) {
  return tensor.device().is_cpu() && is_plain_of<c10::DispatchKey::CPU, c10::BackendComponent::CPUBit>(tensor);
}

// The same on the CPU, or on a device that kernels are set for.
inline bool is_plain(const at::Tensor& tensor) {
  if (tensor.device().is_cpu()) return is_plain_on_cpu(tensor);
  return tensor.device().is_cuda() && device_kernels_on(c10::DeviceType::CUDA) != nullptr &&
         is_plain_of<c10::DispatchKey::CUDA, c10::BackendComponent::CUDABit>(tensor);
}

// Whether no mode is active that has to see torch's operators: tracing, torch.func, fake tensors, Python dispatch.
inline bool no_mode_is_active() {
  const c10::impl::LocalDispatchKeySet keys = c10::impl::tls_local_dispatch_key_set();
  return (keys.included_ - c10::default_included_set).empty() && !torch::jit::tracer::isTracing() &&
         !at::impl::torch_function_mode_enabled();
}

}  // namespace traj_integrator
