#include "results.h"

#include <algorithm>
#include <cstdint>
#include <new>

#include "kept_memory.h"

namespace traj_integrator {
namespace {

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
    give_back(owner, owner->bytes);
  }
};

void Result::make(char type, std::initializer_list<int64_t> shape, Array& array, std::initializer_list<const Array*> beside) {
  array = {};
  array.type = type;
  for (const int64_t size : shape) array.shape[array.dims++] = size;
  const size_t item = type == 'd' ? sizeof(double) : sizeof(float);
  const size_t size = static_cast<size_t>(array.size()) * item, room = size < kLeastApartBytes ? 0 : kPage;
  const size_t bytes = sizeof(Owner) + kAlignment - 1 + room + size;
  owner_ = new (take_memory(bytes)) Owner;
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
