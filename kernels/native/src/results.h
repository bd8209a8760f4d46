// Results for Python, as DLPack: any framework makes an array of its own of them, without a copy.
#pragma once

#include "array.h"
#include "dlpack.h"
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
  // What `import_object`, or where there is none `from_dlpack`, makes of it, a new reference; null with a Python error.
  using Import = decltype(DLExchange::import_object);
  PyObject* hand_over(PyObject* from_dlpack, Import import_object);

 private:
  struct Owner;
  Owner* owner_ = nullptr;
};

}  // namespace traj_integrator
