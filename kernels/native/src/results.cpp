// Memory of results, and the tensors made of them.
#include <algorithm>
#include <array>
#include <atomic>
#include <cstdint>
#include <cstdlib>
#include <new>

#include "python_torch.h"

namespace traj_integrator {
namespace {

constexpr size_t kMostBytes = 64 << 20, kMostBlocks = 64;
// Smaller pieces are allocated by the C library without a system call.
constexpr size_t kLeastKeptBytes = 64 << 10;

struct Block {
  void* data;
  size_t bytes;
};

// Memory of results that are no longer in use, for the next ones of the same size: new, cleared pages from the system take
// longer than filling them. Blocks that are not in use, the oldest first. No thread ever waits for the lock: if another
// thread holds it, or held it when this process was forked, the call does without kept memory.
class Shelf {
 public:
  // Memory that nobody else has, aligned as the C library does; throws std::bad_alloc. The block of that size that was added
  // last is the most likely to be in a cache.
  void* take(size_t bytes) {
    void* memory = nullptr;
    if (bytes >= kLeastKeptBytes && lock()) {
      for (size_t i = count_; i-- > 0 && memory == nullptr;) {
        if (blocks_[i].bytes == bytes) memory = removed(i);
      }
      unlock();
    }
    if (memory == nullptr) memory = std::malloc(bytes);
    if (memory == nullptr) throw std::bad_alloc();
    return memory;
  }

  // Takes ownership of a block, and releases the oldest ones to make room for it.
  void put(const Block& block) {
    if (block.bytes < kLeastKeptBytes || block.bytes > kMostBytes || !lock()) return std::free(block.data);
    while (count_ == kMostBlocks || bytes_ + block.bytes > kMostBytes) std::free(removed(0));
    blocks_[count_++] = block;
    bytes_ += block.bytes;
    unlock();
  }

 private:
  bool lock() { return !busy_.test_and_set(std::memory_order_acquire); }
  void unlock() { busy_.clear(std::memory_order_release); }
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
  size_t bytes_ = 0;
};

// Never destroyed: results may outlive every static object.
Shelf& shelf() {
  static Shelf* const only = new Shelf;
  return *only;
}

constexpr uintptr_t kAlignment = 64;  // for vectors
// A load waits for stores in flight to the same place of another page: whole loops took up to a third longer.
constexpr uintptr_t kPage = 4096, kApart = 256;
constexpr size_t kLeastApartBytes = 64 << 10;

bool is_apart(uintptr_t place, std::initializer_list<const Array*> beside) {
  return std::all_of(beside.begin(), beside.end(), [place](const Array* other) {
    return !other->given() || (place - reinterpret_cast<uintptr_t>(other->data) + kApart - 1) % kPage >= 2 * kApart - 1;
  });
}

}  // namespace

// The head of the memory of a result.
struct Result::Owner {
  DLManagedTensor tensor;
  DLVersionedTensor versioned;
  int64_t shape[4], strides[4];
  size_t bytes;  // of the memory

  template <typename Form>
  static void release(Form* self) {
    Owner* const owner = static_cast<Owner*>(self->owner);
    shelf().put({owner, owner->bytes});
  }
};

void Result::make(char type, std::initializer_list<int64_t> shape, Array& array, std::initializer_list<const Array*> beside) {
  array = {};
  array.type = type;
  for (const int64_t size : shape) array.shape[array.dims++] = size;
  const size_t item = type == 'd' ? sizeof(double) : sizeof(float);
  const size_t size = static_cast<size_t>(array.size()) * item, room = size < kLeastApartBytes ? 0 : kPage;
  const size_t bytes = sizeof(Owner) + kAlignment - 1 + room + size;
  owner_ = new (shelf().take(bytes)) Owner;
  owner_->bytes = bytes;
  const uintptr_t first = (reinterpret_cast<uintptr_t>(owner_ + 1) + kAlignment - 1) / kAlignment * kAlignment;
  uintptr_t place = first;
  while (place + kApart <= first + room && !is_apart(place, beside)) place += kApart;
  array.data = reinterpret_cast<void*>(place);
  std::copy_n(array.shape, array.dims, owner_->shape);
  int64_t stride = 1;
  for (int dim = array.dims - 1; dim >= 0; stride *= array.shape[dim--]) owner_->strides[dim] = stride;
  owner_->tensor = {{array.data, DLTensor::kCpu, 0, array.dims, DLTensor::kFloat, static_cast<uint8_t>(8 * item), 1,
                     owner_->shape, owner_->strides, 0}, owner_, &Owner::release<DLManagedTensor>};
}

PyObject* Result::hand_over() {
  if (torch.exchange != nullptr) {  // without a capsule and a Python call: half the time
    void* taken = nullptr;
    owner_->versioned = {DLExchange::kMajor, 0, owner_, &Owner::release<DLVersionedTensor>, 0, owner_->tensor.tensor};
    if (torch.exchange->import_object(&owner_->versioned, &taken) != 0) return nullptr;
    owner_ = nullptr;
    return static_cast<PyObject*>(taken);
  }
  PyObject* const capsule = PyCapsule_New(&owner_->tensor, DLManagedTensor::kCapsule, [](PyObject* unused) {
    if (PyCapsule_IsValid(unused, DLManagedTensor::kCapsule) == 0) return;  // it has been taken
    DLManagedTensor* const tensor = static_cast<DLManagedTensor*>(PyCapsule_GetPointer(unused, DLManagedTensor::kCapsule));
    tensor->deleter(tensor);
  });
  if (capsule == nullptr) return nullptr;
  owner_ = nullptr;
  PyObject* const taken = PyObject_CallFunctionObjArgs(torch.from_dlpack, capsule, nullptr);
  Py_DECREF(capsule);
  return taken;
}

Result::~Result() {
  if (owner_ != nullptr) Owner::release(&owner_->tensor);
}

}  // namespace traj_integrator
