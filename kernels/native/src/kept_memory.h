// Tensors for results, in memory that the process keeps for later results.
#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>

namespace traj_integrator {

// An uninitialized CPU tensor. When a large one is released, its memory is kept for the next one of the same size:
// getting new, cleared pages from the system takes longer than filling them. Safe from any thread; each tensor has a
// storage of its own, like any other tensor.
at::Tensor new_result(at::IntArrayRef shape, at::ScalarType dtype);

// Bytes that are kept at the moment; at most TRAJ_INTEGRATOR_KEPT_MIB (default 64 MiB; 0 keeps nothing).
int64_t kept_bytes();

// Releases all of them to the system.
void release_kept_memory();

}  // namespace traj_integrator
