// Python's lock during computations that are worth giving it away for.
#pragma once

#include <torch/csrc/utils/pybind.h>

#include <cstdint>
#include <optional>

namespace traj_integrator {

template <class Compute>
void without_interpreter_lock(int64_t elements, const Compute& compute) {
  constexpr int64_t kReleaseElements = 4096;
  std::optional<pybind11::gil_scoped_release> released;
  if (elements >= kReleaseElements) released.emplace();
  compute();
}

}  // namespace traj_integrator
