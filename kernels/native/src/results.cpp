#include "results.h"

#include <algorithm>
#include <cstdlib>
#include <new>

#include "dlpack.h"
#include "kept_memory.h"

namespace traj_integrator {
namespace {

// Smaller results are allocated by the C library without a system call.
constexpr size_t kLeastKeptBytes = 64 << 10;

}  // namespace

struct Result::Owner {
  DLManagedTensor tensor;
  int64_t shape[4];
  KeptBlock* block;  // null: the memory is behind this

  static void release(DLManagedTensor* self) {
    Owner* const owner = static_cast<Owner*>(self->owner);
    if (owner->block != nullptr) give_back(owner->block);
    std::free(owner);
  }
};

void Result::make(char type, std::initializer_list<int64_t> shape, Array& array) {
  constexpr size_t kHead = (sizeof(Owner) + kBlockAlignment - 1) / kBlockAlignment * kBlockAlignment;
  array = {};
  array.type = type;
  for (const int64_t size : shape) array.shape[array.dims++] = size;
  const size_t item = type == 'd' ? sizeof(double) : sizeof(float), bytes = static_cast<size_t>(array.size()) * item;
  KeptBlock* const block = bytes < kLeastKeptBytes ? nullptr : take_block(bytes);
  void* const memory = aligned_memory(kHead + (block == nullptr ? bytes : 0));
  owner_ = new (memory) Owner{};
  owner_->block = block;
  array.data = block != nullptr ? block->data : static_cast<char*>(memory) + kHead;
  std::copy_n(array.shape, array.dims, owner_->shape);
  owner_->tensor = {{array.data, DLTensor::kCpu, 0, array.dims, DLTensor::kFloat, static_cast<uint8_t>(8 * item), 1,
                     owner_->shape, nullptr, 0}, owner_, &Owner::release};
}

PyObject* Result::hand_over(PyObject* from_dlpack) {
  PyObject* const capsule = PyCapsule_New(&owner_->tensor, DLManagedTensor::kCapsule, [](PyObject* unused) {
    if (PyCapsule_IsValid(unused, DLManagedTensor::kCapsule) == 0) return;  // it has been taken
    DLManagedTensor* const tensor = static_cast<DLManagedTensor*>(PyCapsule_GetPointer(unused, DLManagedTensor::kCapsule));
    tensor->deleter(tensor);
  });
  if (capsule == nullptr) return nullptr;
  owner_ = nullptr;
  PyObject* const taken = PyObject_CallFunctionObjArgs(from_dlpack, capsule, nullptr);
  Py_DECREF(capsule);
  return taken;
}

Result::~Result() {
  if (owner_ != nullptr) Owner::release(&owner_->tensor);
}

}  // namespace traj_integrator
