// Chooses the loops for this CPU.
#pragma once

#include "problem.h"

namespace traj_integrator {

// The loops over trajectories `begin` to `end`; `scratch` has as many doubles as scratch_size() says.
template <class Scalar>
using Loop = void (*)(const Problem<Scalar>& problem, int64_t begin, int64_t end, double* scratch);

// Cost of the four outputs of one trajectory, `size` numbers each; those with a term are overwritten by their
// gradients.
using CostLoop = double (*)(const CostTerm* terms, int64_t size, double* const* outputs);

// The loops of one instruction set (loops.inc).
template <class Scalar>
struct MapLoops {
  Loop<Scalar> forward, vjp;
};
struct Loops {
  MapLoops<float> of_float;
  MapLoops<double> of_double;
  CostLoop quadratic_cost;

  template <class Scalar>
  const MapLoops<Scalar>& of() const {
    if constexpr (sizeof(Scalar) == sizeof(float)) return of_float;
    else return of_double;
  }
};
namespace baseline { extern const Loops loops; }
namespace avx2 { extern const Loops loops; }

// "baseline" or "avx2", chosen once: the best that the CPU has, or what the environment asks for
// (TRAJ_INTEGRATOR_INSTRUCTION_SET).
enum class InstructionSet { kBaseline, kAvx2 };
InstructionSet instruction_set();
const char* instruction_set_name();

// One instance for each instruction set.
template <class Function>
Function chosen([[maybe_unused]] Function avx2, Function baseline) {
#if defined(__x86_64__)
  if (instruction_set() == InstructionSet::kAvx2) return avx2;
#endif
  return baseline;
}

// The loops of this CPU.
inline const Loops& loops() {
#if defined(__x86_64__)
  return *chosen(&avx2::loops, &baseline::loops);
#else
  return baseline::loops;
#endif
}

}  // namespace traj_integrator
