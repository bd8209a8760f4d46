// Which tensors and moments are ordinary: nobody but autograd wants to know what is done.
#pragma once

#include <ATen/PythonTorchFunctionTLS.h>
#include <ATen/core/Tensor.h>
#include <c10/core/impl/LocalDispatchKeySet.h>
#include <torch/csrc/jit/frontend/tracer.h>

namespace traj_integrator {

// A CPU tensor with nothing attached to it but, perhaps, a place in autograd's graph.
inline bool is_plain(const at::Tensor& tensor) {
  static const c10::DispatchKeySet plain =
      c10::DispatchKeySet(c10::DispatchKey::CPU) |
      c10::getAutogradRelatedKeySetFromBackend(c10::BackendComponent::CPUBit) |
      c10::getAutocastRelatedKeySetFromBackend(c10::BackendComponent::CPUBit) |
      c10::DispatchKeySet(c10::DispatchKey::ADInplaceOrView);
  return (tensor.key_set() | plain) == plain && tensor.device().is_cpu() && !tensor._fw_grad(0).defined();
}

// No mode is active that wants to see torch's operators: tracing, torch.func, fake tensors, Python dispatch.
inline bool no_mode_is_active() {
  const c10::impl::LocalDispatchKeySet keys = c10::impl::tls_local_dispatch_key_set();
  return (keys.included_ - c10::default_included_set).empty() && !torch::jit::tracer::isTracing() &&
         !at::impl::torch_function_mode_enabled();
}

}  // namespace traj_integrator
