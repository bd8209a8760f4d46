// What is wrong with the arguments of a call, thrown before anything has been written.
#pragma once

#include <sstream>
#include <string>

#include "array.h"

namespace traj_integrator {

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
