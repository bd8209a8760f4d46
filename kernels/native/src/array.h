// A contiguous array, borrowed for one call from numpy, torch or a program; and the error for arguments that do not
// fit.
#pragma once

#include <algorithm>
#include <cstdint>
#include <initializer_list>
#include <sstream>
#include <string>

namespace traj_integrator {

struct Array {
  static constexpr int kMostDims = 8;

  void* data = nullptr;
  char type = 0;  // as in Python's struct: 'f' and 'd' are float and double, 'i' and 'l' integers of 32 and 64 bits; 0: none
  int dims = 0;
  int64_t shape[kMostDims] = {};

  bool given() const { return type != 0; }
  bool is_real() const { return type == 'f' || type == 'd'; }
  bool has_shape(std::initializer_list<int64_t> sizes) const { return std::equal(shape, shape + dims, sizes.begin(), sizes.end()); }
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

// The error in the arguments of a call, thrown before anything has been written.
enum class Wrong { kType, kValue, kIndex };  // TypeError, ValueError and IndexError of Python

struct Misfit {
  Wrong what;
  std::string text;
};

inline std::ostream& operator<<(std::ostream& out, const Array& array) {
  out << '[';
  for (int dim = 0; dim < array.dims; ++dim) out << (dim == 0 ? "" : ", ") << array.shape[dim];
  return out << ']';
}

template <class... Parts>
void expect(bool fits, Wrong what, const Parts&... parts) {
  if (fits) return;
  std::ostringstream text;
  (text << ... << parts);
  throw Misfit{what, text.str()};
}

}  // namespace traj_integrator
