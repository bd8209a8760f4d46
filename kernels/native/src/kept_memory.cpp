#include "kept_memory.h"

#include <algorithm>
#include <array>
#include <atomic>
#include <cstdlib>
#include <new>
#include <utility>

namespace traj_integrator {
namespace {

constexpr size_t kMiB = 1 << 20;
constexpr size_t kMostBlocks = 64;
// Smaller pieces are allocated by the C library without a system call.
constexpr size_t kLeastKeptBytes = 64 << 10;

struct Block {
  void* data;
  size_t bytes;
};

size_t limit_from_environment() {
  const char* const text = std::getenv("TRAJ_INTEGRATOR_KEPT_MIB");
  if (text == nullptr || *text == '\0') return 64 * kMiB;
  char* end = nullptr;
  const long long mib = std::strtoll(text, &end, 10);
  return *end == '\0' && mib >= 0 ? static_cast<size_t>(mib) * kMiB : 64 * kMiB;
}

// Blocks that are not in use, the oldest first. No thread ever waits for the lock: if another thread holds it, or held
// it when this process was forked, the call does without kept memory.
class Shelf {
 public:
  // Returns the block of that size that was added last, since it is the most likely to be in a cache; null if there is
  // none.
  void* take(size_t bytes) {
    if (busy_.test_and_set(std::memory_order_acquire)) return nullptr;
    void* found = nullptr;
    for (size_t i = count_; i-- > 0 && found == nullptr;) {
      if (blocks_[i].bytes == bytes) found = removed(i);
    }
    busy_.clear(std::memory_order_release);
    return found;
  }

  // Takes ownership of a block, and releases the oldest ones to make room for it.
  void put(const Block& block) {
    if (block.bytes > limit_ || busy_.test_and_set(std::memory_order_acquire)) return std::free(block.data);
    std::array<void*, kMostBlocks> dropped;
    size_t drops = 0;
    while (count_ == kMostBlocks || bytes_ + block.bytes > limit_) dropped[drops++] = removed(0);
    blocks_[count_++] = block;
    bytes_ += block.bytes;
    busy_.clear(std::memory_order_release);
    for (size_t i = 0; i < drops; ++i) std::free(dropped[i]);
  }

  void clear() {
    if (busy_.test_and_set(std::memory_order_acquire)) return;
    const std::array<Block, kMostBlocks> dropped = blocks_;
    const size_t drops = std::exchange(count_, 0);
    bytes_ = 0;
    busy_.clear(std::memory_order_release);
    for (size_t i = 0; i < drops; ++i) std::free(dropped[i].data);
  }

  size_t bytes() const { return bytes_; }

 private:
  void* removed(size_t i) {
    const Block block = blocks_[i];
    std::move(blocks_.begin() + i + 1, blocks_.begin() + count_, blocks_.begin() + i);
    --count_;
    bytes_ -= block.bytes;
    return block.data;
  }

  std::atomic_flag busy_;
  std::array<Block, kMostBlocks> blocks_{};
  size_t count_ = 0;
  std::atomic<size_t> bytes_ = 0;
  const size_t limit_ = limit_from_environment();
};

// Never destroyed: results may outlive every static object.
Shelf& shelf() {
  static Shelf* const only = new Shelf;
  return *only;
}

}  // namespace

void* take_memory(size_t bytes) {
  void* memory = bytes < kLeastKeptBytes ? nullptr : shelf().take(bytes);
  if (memory == nullptr) memory = std::malloc(bytes);
  if (memory == nullptr) throw std::bad_alloc();
  return memory;
}

void give_back(void* memory, size_t bytes) { bytes < kLeastKeptBytes ? std::free(memory) : shelf().put({memory, bytes}); }

size_t kept_bytes() { return shelf().bytes(); }

void release_kept_memory() { shelf().clear(); }

}  // namespace traj_integrator
