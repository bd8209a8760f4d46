// A loop over independent tasks on several threads.
#pragma once

#include <algorithm>
#include <atomic>
#include <cstdint>
#include <thread>
#include <vector>

namespace traj_integrator::retiming {

// Calls task(0) to task(count - 1), each once; tasks take from microseconds to milliseconds, so threads are started anew.
template <class Task>
void on_threads(int64_t count, int64_t threads, const Task& task) {
  std::atomic<int64_t> next = 0;
  const auto work = [&] {
    for (int64_t k; (k = next.fetch_add(1)) < count;) task(k);
  };
  std::vector<std::thread> others;
  for (int64_t i = 1; i < std::min(threads, count); ++i) others.emplace_back(work);
  work();
  for (std::thread& thread : others) thread.join();
}

}  // namespace traj_integrator::retiming
