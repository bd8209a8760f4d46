// The part of DLPack's C header that every framework has which shows its arrays to others: a stable layout, of its
// version 1.
#pragma once

#include <cstdint>

namespace traj_integrator {

struct DLTensor {
  static constexpr int32_t kCpu = 1;
  static constexpr uint8_t kInt = 0, kFloat = 2;

  void* data;
  int32_t device_type, device_id;
  int32_t dims;
  uint8_t code, bits;
  uint16_t lanes;
  int64_t* shape;
  int64_t* strides;  // null in results: contiguous
  uint64_t byte_offset;
};

// A tensor that is given away; the form of before version 1, which every framework reads.
struct DLManagedTensor {
  static constexpr const char* kCapsule = "dltensor";

  DLTensor tensor;
  void* owner;
  void (*deleter)(DLManagedTensor* self);
};

// The same from version 1 on.
struct DLVersionedTensor {
  uint32_t major, minor;
  void* owner;
  void (*deleter)(DLVersionedTensor* self);
  uint64_t flags;
  DLTensor tensor;
};

// Functions of a framework for its tensors, from version 1.2 on (`Tensor.__dlpack_c_exchange_api__`).
struct DLExchange {
  static constexpr const char* kCapsule = "dlpack_exchange_api";
  static constexpr uint32_t kMajor = 1;

  uint32_t major, minor;
  const void* older;
  void *allocate, *export_object;
  int (*import_object)(DLVersionedTensor* tensor, void** object);  // takes the tensor; not 0: there is a Python error
  int (*describe)(void* object, DLTensor* tensor);  // without ownership; not 0: there is a Python error
};

}  // namespace traj_integrator
