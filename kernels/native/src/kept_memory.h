// Tensors for results, in memory that stays with the process for a while after they are gone.
#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>

namespace traj_integrator {

// An uninitialized CPU tensor. The memory of large ones, when nobody holds them any more, is kept for the next of the
// same size: to get new pages from the system and to have them cleared takes longer than to fill them. Safe from any
// thread; each tensor has a storage of its own, as any other.
at::Tensor new_result(at::IntArrayRef shape, at::ScalarType dtype);

// Bytes that are kept at the moment, never more than TRAJ_INTEGRATOR_KEPT_MIB says (64 MiB; 0 keeps nothing).
int64_t kept_bytes();

// Gives all of them back.
void release_kept_memory();

}  // namespace traj_integrator
