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

void release(KeptBlock* block) {
  std::free(block->data);
  delete block;
}

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
  KeptBlock* take(size_t bytes) {
    if (busy_.test_and_set(std::memory_order_acquire)) return nullptr;
    KeptBlock* found = nullptr;
    for (size_t i = count_; i-- > 0 && found == nullptr;) {
      if (blocks_[i]->bytes == bytes) found = removed(i);
    }
    busy_.clear(std::memory_order_release);
    return found;
  }

  // Takes ownership of a block, and releases the oldest ones to make room for it.
  void put(KeptBlock* block) {
    if (block->bytes > limit_ || busy_.test_and_set(std::memory_order_acquire)) {
      release(block);
      return;
    }
    std::array<KeptBlock*, kMostBlocks> dropped;
    size_t drops = 0;
    while (count_ == kMostBlocks || bytes_ + block->bytes > limit_) dropped[drops++] = removed(0);
    blocks_[count_++] = block;
    bytes_ += block->bytes;
    busy_.clear(std::memory_order_release);
    for (size_t i = 0; i < drops; ++i) release(dropped[i]);
  }

  void clear() {
    if (busy_.test_and_set(std::memory_order_acquire)) return;
    const std::array<KeptBlock*, kMostBlocks> dropped = blocks_;
    const size_t drops = std::exchange(count_, 0);
    bytes_ = 0;
    busy_.clear(std::memory_order_release);
    for (size_t i = 0; i < drops; ++i) release(dropped[i]);
  }

  size_t bytes() const { return bytes_; }

 private:
  KeptBlock* removed(size_t i) {
    KeptBlock* const block = blocks_[i];
    std::move(blocks_.begin() + i + 1, blocks_.begin() + count_, blocks_.begin() + i);
    --count_;
    bytes_ -= block->bytes;
    return block;
  }

  std::atomic_flag busy_;
  std::array<KeptBlock*, kMostBlocks> blocks_{};
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

void* aligned_memory(size_t bytes) {
  void* const memory = std::aligned_alloc(kBlockAlignment, (bytes + kBlockAlignment - 1) / kBlockAlignment * kBlockAlignment);
  if (memory == nullptr) throw std::bad_alloc();
  return memory;
}

KeptBlock* take_block(size_t bytes) {
  if (KeptBlock* const kept = shelf().take(bytes)) return kept;
  return new KeptBlock{aligned_memory(bytes), bytes};
}

void give_back(KeptBlock* block) { shelf().put(block); }

size_t kept_bytes() { return shelf().bytes(); }

void release_kept_memory() { shelf().clear(); }

}  // namespace traj_integrator
