#include "results.h"

#include <algorithm>
#include <cstdlib>
#include <new>

#include "kept_memory.h"

namespace traj_integrator {
namespace {

// Smaller results are allocated by the C library without a system call.
constexpr size_t kLeastKeptBytes = 64 << 10;

}  // namespace

struct Result::Owner {
  DLManagedTensor tensor;
  DLVersionedTensor versioned;
  int64_t shape[4], strides[4];
  KeptBlock* block;  // null: the memory is behind this

  template <typename Form>
  static void release(Form* self) {
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
  int64_t stride = 1;
  for (int dim = array.dims - 1; dim >= 0; stride *= array.shape[dim--]) owner_->strides[dim] = stride;
  owner_->tensor = {{array.data, DLTensor::kCpu, 0, array.dims, DLTensor::kFloat, static_cast<uint8_t>(8 * item), 1,
                     owner_->shape, owner_->strides, 0}, owner_, &Owner::release<DLManagedTensor>};
}

PyObject* Result::hand_over(PyObject* from_dlpack, Import import_object) {
  if (import_object != nullptr) {  // without a capsule and a call of Python: half the time
    void* taken = nullptr;
    owner_->versioned = {DLExchange::kMajor, 0, owner_, &Owner::release<DLVersionedTensor>, 0, owner_->tensor.tensor};
    if (import_object(&owner_->versioned, &taken) != 0) return nullptr;
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
  PyObject* const taken = PyObject_CallFunctionObjArgs(from_dlpack, capsule, nullptr);
  Py_DECREF(capsule);
  return taken;
}

Result::~Result() {
  if (owner_ != nullptr) Owner::release(&owner_->tensor);
}

}  // namespace traj_integrator
