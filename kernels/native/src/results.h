// Results for Python, as DLPack: torch makes a tensor of them, without a copy.
#pragma once

#include "array.h"
#include "python_buffer.h"

namespace traj_integrator {

// An uninitialized contiguous array, owned until it is handed over.
class Result {
 public:
  Result() = default;
  Result(const Result&) = delete;
  Result& operator=(const Result&) = delete;
  ~Result();

  // `array` is the memory; throws std::bad_alloc. That of larger results is kept from earlier ones, and begins at another
  // place of a page than arrays that the loops go through at the same time.
  void make(char type, std::initializer_list<int64_t> shape, Array& array, std::initializer_list<const Array*> beside = {});
  bool is_made() const { return owner_ != nullptr; }
  // As a tensor, a new reference; null with a Python error.
  PyObject* hand_over();

 private:
  struct Owner;
  Owner* owner_ = nullptr;
};

// Memory that is kept for the next results, within the limit of TRAJ_INTEGRATOR_KEPT_MIB (default 64 MiB; 0 keeps nothing).
size_t kept_bytes();
void release_kept_memory();

}  // namespace traj_integrator
