// A contiguous array that is borrowed for one call, whoever made it: numpy, torch, a program.
#pragma once

#include <cstdint>
#include <initializer_list>

namespace traj_integrator {

struct Array {
  static constexpr int kMostDims = 8;

  void* data = nullptr;
  char type = 0;  // as in Python's struct: 'f' and 'd' are float and double, 'i' and 'l' integers of 32 and 64 bits; 0: none
  int dims = 0;
  int64_t shape[kMostDims] = {};

  bool given() const { return type != 0; }
  bool is_real() const { return type == 'f' || type == 'd'; }
  bool has_shape(std::initializer_list<int64_t> sizes) const {
    if (dims != static_cast<int>(sizes.size())) return false;
    int dim = 0;
    for (const int64_t size : sizes) {
      if (shape[dim++] != size) return false;
    }
    return true;
  }
  int64_t size() const {
    int64_t count = 1;
    for (int dim = 0; dim < dims; ++dim) count *= shape[dim];
    return count;
  }
  template <class T>
  T* as() const {
    return static_cast<T*>(data);
  }
};

}  // namespace traj_integrator
