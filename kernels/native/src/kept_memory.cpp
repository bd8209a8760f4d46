#include "kept_memory.h"

#include <ATen/EmptyTensor.h>
#include <c10/core/Allocator.h>
#include <c10/core/CPUAllocator.h>

#include <algorithm>
#include <array>
#include <atomic>
#include <cstdlib>
#include <utility>

namespace traj_integrator {
namespace {

constexpr size_t kMiB = 1 << 20;
// Smaller results are allocated by the C library without a system call.
constexpr size_t kLeastBytes = 64 << 10;
constexpr size_t kMostBlocks = 64;

// Memory of torch's allocator, with its size.
struct Block {
  c10::DataPtr memory;
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
  Block* take(size_t bytes) {
    if (busy_.test_and_set(std::memory_order_acquire)) return nullptr;
    Block* found = nullptr;
    for (size_t i = count_; i-- > 0 && found == nullptr;) {
      if (blocks_[i]->bytes == bytes) found = removed(i);
    }
    busy_.clear(std::memory_order_release);
    return found;
  }

  // Takes ownership of a block, and releases the oldest ones to make room for it.
  void put(Block* block) {
    if (block->bytes > limit_ || busy_.test_and_set(std::memory_order_acquire)) {
      delete block;
      return;
    }
    std::array<Block*, kMostBlocks> dropped;
    size_t drops = 0;
    while (count_ == kMostBlocks || bytes_ + block->bytes > limit_) dropped[drops++] = removed(0);
    blocks_[count_++] = block;
    bytes_ += block->bytes;
    busy_.clear(std::memory_order_release);
    for (size_t i = 0; i < drops; ++i) delete dropped[i];
  }

  void clear() {
    if (busy_.test_and_set(std::memory_order_acquire)) return;
    const std::array<Block*, kMostBlocks> dropped = blocks_;
    const size_t drops = std::exchange(count_, 0);
    bytes_ = 0;
    busy_.clear(std::memory_order_release);
    for (size_t i = 0; i < drops; ++i) delete dropped[i];
  }

  size_t bytes() const { return bytes_; }

 private:
  Block* removed(size_t i) {
    Block* const block = blocks_[i];
    std::move(blocks_.begin() + i + 1, blocks_.begin() + count_, blocks_.begin() + i);
    --count_;
    bytes_ -= block->bytes;
    return block;
  }

  std::atomic_flag busy_;
  std::array<Block*, kMostBlocks> blocks_{};
  size_t count_ = 0;
  std::atomic<size_t> bytes_ = 0;
  const size_t limit_ = limit_from_environment();
};

// Never destroyed: tensors may outlive every static object.
Shelf& shelf() {
  static Shelf* const only = new Shelf;
  return *only;
}

void give_back(void* block) { shelf().put(static_cast<Block*>(block)); }

class KeepingAllocator final : public c10::Allocator {
 public:
  c10::DataPtr allocate(size_t bytes) override {
    if (bytes < kLeastBytes) return c10::GetCPUAllocator()->allocate(bytes);
    Block* block = shelf().take(bytes);
    if (block == nullptr) block = new Block{c10::GetCPUAllocator()->allocate(bytes), bytes};
    return {block->memory.get(), block, &give_back, c10::Device(c10::kCPU)};
  }

  void copy_data(void* to, const void* from, size_t bytes) const override { default_copy_data(to, from, bytes); }
};

}  // namespace

at::Tensor new_result(at::IntArrayRef shape, at::ScalarType dtype) {
  static KeepingAllocator* const allocator = new KeepingAllocator;
  constexpr c10::DispatchKeySet cpu(c10::DispatchKey::CPU);
  return at::Tensor(at::detail::empty_generic(shape, allocator, cpu, dtype, std::nullopt));
}

int64_t kept_bytes() { return static_cast<int64_t>(shelf().bytes()); }

void release_kept_memory() { shelf().clear(); }

}  // namespace traj_integrator
