// Memory of results that are no longer in use, for the next ones of the same size: new, cleared pages from the system take
// longer than filling them. Safe from any thread.
#pragma once

#include <cstddef>

namespace traj_integrator {

// Memory that nobody else has, aligned as the C library does; throws std::bad_alloc.
void* take_memory(size_t bytes);
// Keeps it, within the limit of TRAJ_INTEGRATOR_KEPT_MIB (default 64 MiB; 0 keeps nothing), or releases it. `bytes` as taken.
void give_back(void* memory, size_t bytes);

size_t kept_bytes();
void release_kept_memory();

}  // namespace traj_integrator
