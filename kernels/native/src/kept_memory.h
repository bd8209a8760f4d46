// Memory of results that are no longer in use, for the next ones of the same size: new, cleared pages from the system take
// longer than filling them. Safe from any thread.
#pragma once

#include <cstddef>

namespace traj_integrator {

struct KeptBlock {
  void* data;
  size_t bytes;
};

constexpr size_t kBlockAlignment = 64;  // for vectors

// From the C library, aligned; throws std::bad_alloc.
void* aligned_memory(size_t bytes);

// Memory that nobody else has, aligned; throws std::bad_alloc.
KeptBlock* take_block(size_t bytes);
// Keeps it, within the limit of TRAJ_INTEGRATOR_KEPT_MIB (default 64 MiB; 0 keeps nothing), or releases it.
void give_back(KeptBlock* block);

size_t kept_bytes();
void release_kept_memory();

}  // namespace traj_integrator
