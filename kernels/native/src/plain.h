// Which tensors and situations are ordinary, so that only autograd has to be told about a computation.
#pragma once

#include <ATen/PythonTorchFunctionTLS.h>
#include <ATen/core/Tensor.h>
#include <c10/core/impl/LocalDispatchKeySet.h>

namespace traj_integrator {

// A tensor on the CPU with nothing attached to it but, perhaps, a place in autograd's graph.
inline bool is_plain(const at::Tensor& tensor) {
  constexpr auto component = c10::BackendComponent::CPUBit;
  static const c10::DispatchKeySet plain =
      c10::DispatchKeySet(c10::DispatchKey::CPU) | c10::getAutogradRelatedKeySetFromBackend(component) |
      c10::getAutocastRelatedKeySetFromBackend(component) | c10::DispatchKeySet(c10::DispatchKey::ADInplaceOrView);
  return tensor.device().is_cpu() && (tensor.key_set() | plain) == plain && !tensor._fw_grad(0).defined();
}

// Whether no mode is active that has to see torch's operators: tracing, torch.func, fake tensors, Python dispatch.
inline bool no_mode_is_active() {
  const c10::impl::LocalDispatchKeySet keys = c10::impl::tls_local_dispatch_key_set();
  return (keys.included_ - c10::default_included_set).empty() && !at::impl::torch_function_mode_enabled();
}

}  // namespace traj_integrator
