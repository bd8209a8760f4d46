// The maps on a device other than the CPU: the implementation for that device, if one has been set.
#pragma once

#include <ATen/core/Tensor.h>

#include <array>

#include "launch.h"

namespace traj_integrator {

// Tensors are contiguous, on one device, and of the shapes that launch_forward and launch_vjp have checked.
class DeviceKernels {
 public:
  explicit DeviceKernels(c10::DeviceType type) : type(type) {}
  virtual ~DeviceKernels() = default;

  virtual void forward(ControlMap map, const at::Tensor& action, const OptionalTensors& start, const at::Tensor& index,
                       const at::Tensor& dt, const Outputs& outputs) = 0;
  // Writes the gradients that are defined.
  virtual void vjp(ControlMap map, const OptionalTensors& upstream, const at::Tensor& index, const at::Tensor& dt,
                   int64_t action_horizon, bool truncate_terminal, const std::array<at::Tensor, 5>& gradients) = 0;

  const c10::DeviceType type;
};

// Null until one is set; the caller keeps ownership.
void set_device_kernels(DeviceKernels* kernels);

// The implementation for devices of this type; null for the CPU, and for devices without kernels.
DeviceKernels* device_kernels_on(c10::DeviceType type);

}  // namespace traj_integrator
