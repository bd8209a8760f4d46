// A loop over independent tasks on several threads.
#pragma once

#include <algorithm>
#include <atomic>
#include <cstdint>

#include "parallel.h"

namespace traj_integrator::retiming {

// Calls task(0) to task(count - 1), each once; a thread takes the next one as soon as it has done one.
template <class Task>
void on_threads(int64_t count, int64_t threads, const Task& task) {
  std::atomic<int64_t> next = 0;
  const auto work = [&](int64_t, int64_t) {
    for (int64_t k; (k = next.fetch_add(1)) < count;) task(k);
  };
  parallel_for(0, std::min(threads, count), 1, static_cast<int>(threads), work);
}

}  // namespace traj_integrator::retiming
