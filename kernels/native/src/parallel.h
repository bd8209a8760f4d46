// A loop over independent parts on threads that wait for the next one.
#pragma once

#include <algorithm>
#include <cstdint>

namespace traj_integrator {

// Calls part(context, 0) to part(context, count - 1), the first on this thread. If another thread uses the others, this one
// does everything; results do not depend on it.
void run_parts(int64_t count, void (*part)(void* context, int64_t k), void* context);

// Calls task(first, last) for [begin, end) in at most `threads` equal parts of at least `grain` elements.
template <class Task>
void parallel_for(int64_t begin, int64_t end, int64_t grain, int threads, const Task& task) {
  if (begin >= end) return;
  struct Split {
    const Task& task;
    int64_t begin, end, size;
  };
  const int64_t most = std::min<int64_t>(threads, (end - begin + grain - 1) / grain);
  if (most <= 1) return task(begin, end);
  Split split{task, begin, end, (end - begin + most - 1) / most};
  run_parts((end - begin + split.size - 1) / split.size, [](void* context, int64_t k) {
    const Split& all = *static_cast<Split*>(context);
    const int64_t first = all.begin + k * all.size;
    all.task(first, std::min(all.end, first + all.size));
  }, &split);
}

}  // namespace traj_integrator
