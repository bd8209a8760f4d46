// Tensors that may be absent: undefined in C++, None in Python and nothing in autograd.
#pragma once

#include <ATen/core/Tensor.h>

#include <array>
#include <optional>

namespace traj_integrator {

using MaybeTensor = std::optional<at::Tensor>;

inline MaybeTensor maybe(const at::Tensor& tensor) { return tensor.defined() ? MaybeTensor(tensor) : std::nullopt; }
inline at::Tensor value(const MaybeTensor& tensor) { return tensor.has_value() ? *tensor : at::Tensor(); }

template <size_t N>
std::array<MaybeTensor, N> maybe(const std::array<at::Tensor, N>& tensors) {
  std::array<MaybeTensor, N> result;
  for (size_t k = 0; k < N; ++k) result[k] = maybe(tensors[k]);
  return result;
}

template <size_t N>
std::array<at::Tensor, N> values(const std::array<MaybeTensor, N>& tensors) {
  std::array<at::Tensor, N> result;
  for (size_t k = 0; k < N; ++k) result[k] = value(tensors[k]);
  return result;
}

template <class Tensors>
bool any_defined(const Tensors& tensors) {
  for (const at::Tensor& tensor : tensors) {
    if (tensor.defined()) return true;
  }
  return false;
}

// A dual number's two parts, of level 0; a tensor without a tangent is its own primal.
inline at::Tensor tangent(const at::Tensor& tensor) { return tensor.defined() ? tensor._fw_grad(0) : tensor; }
inline at::Tensor primal(const at::Tensor& tensor) {
  return tangent(tensor).defined() ? tensor._fw_primal(0) : tensor;
}

inline bool is_half(at::ScalarType dtype) { return dtype == at::kHalf || dtype == at::kBFloat16; }

}  // namespace traj_integrator
