#include "parallel.h"

#include <pthread.h>

#include <atomic>
#include <chrono>
#include <exception>
#include <memory>
#include <mutex>
#include <thread>
#include <vector>

namespace traj_integrator {
namespace {

// How long an idle thread looks for work before it sleeps: waking it takes as long as a small batch.
constexpr auto kAwake = std::chrono::microseconds(200);

void relax() {
#if defined(__x86_64__)
  __builtin_ia32_pause();
#elif defined(__aarch64__)
  asm volatile("yield");
#endif
}

struct Job {
  void (*part)(void* context, int64_t k);
  void* context;
  std::atomic<bool> failed = false;
  std::exception_ptr error;

  void run(int64_t k) {
    try {
      part(context, k);
    } catch (...) {
      if (!failed.exchange(true)) error = std::current_exception();
    }
  }
};

// A thread that does one part of each job it is given, unless it has not begun when the part is needed.
class Worker {
 public:
  Worker() { std::thread([this] { work(); }).detach(); }

  void start(Job& job, int64_t part) {
    part_ = part;
    is_done_.store(false, std::memory_order_relaxed);
    job_.store(&job, std::memory_order_release);
    job_.notify_one();
  }
  // Returns when the part is done, if need be on this thread.
  void finish(Job& job) {
    Job* waiting = &job;
    if (job_.compare_exchange_strong(waiting, nullptr)) return job.run(part_);
    for (int spins = 0; !is_done_.load(std::memory_order_acquire);) {
      ++spins < 10'000 ? relax() : std::this_thread::yield();  // it may have lost its core
    }
  }

 private:
  void work() {
    for (;;) {
      if (Job* const job = next()) {
        job->run(part_);
        is_done_.store(true, std::memory_order_release);
      }
    }
  }
  // The next job; null if it has been taken back.
  Job* next() {
    const auto until = std::chrono::steady_clock::now() + kAwake;
    do {
      for (int spins = 0; spins < 64; ++spins, relax()) {
        if (job_.load(std::memory_order_relaxed) != nullptr) return job_.exchange(nullptr);
      }
    } while (std::chrono::steady_clock::now() < until);
    job_.wait(nullptr);
    return job_.exchange(nullptr);
  }

  std::atomic<Job*> job_ = nullptr;
  std::atomic<bool> is_done_ = true;
  int64_t part_ = 0;
};

struct Pool {
  std::mutex in_use;
  std::vector<std::unique_ptr<Worker>> workers;
};

// Never destroyed: its threads run until the process ends. A forked process has none of them, and begins anew.
std::atomic<Pool*> only = nullptr;

Pool& pool() {
  Pool* known = only.load(std::memory_order_acquire);
  if (known != nullptr) return *known;
  static const int is_registered = pthread_atfork(nullptr, nullptr, [] { only.store(nullptr); });
  static_cast<void>(is_registered);
  Pool* const made = new Pool;
  if (only.compare_exchange_strong(known, made)) return *made;
  delete made;
  return *known;
}

}  // namespace

void run_parts(int64_t count, void (*part)(void* context, int64_t k), void* context) {
  thread_local bool is_inside = false;
  Pool& threads = pool();
  std::unique_lock<std::mutex> lock(threads.in_use, std::defer_lock);
  if (is_inside || !lock.try_lock()) {
    for (int64_t k = 0; k < count; ++k) part(context, k);
    return;
  }
  Job job{part, context, false, nullptr};
  const size_t others = static_cast<size_t>(count - 1);
  while (threads.workers.size() < others) threads.workers.push_back(std::make_unique<Worker>());
  for (size_t k = 0; k < others; ++k) threads.workers[k]->start(job, static_cast<int64_t>(k) + 1);
  is_inside = true;
  job.run(0);
  is_inside = false;
  for (size_t k = 0; k < others; ++k) threads.workers[k]->finish(job);
  if (job.error) std::rethrow_exception(job.error);
}

}  // namespace traj_integrator
