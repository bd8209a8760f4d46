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

#define TRAJ_INTEGRATOR_DECLARE_LOOPS(instruction_set)                                                 \
  namespace instruction_set {                                                                          \
  template <class Scalar>                                                                              \
  void forward(const Problem<Scalar>& problem, int64_t begin, int64_t end, double* scratch);           \
  template <class Scalar>                                                                              \
  void vjp(const Problem<Scalar>& problem, int64_t begin, int64_t end, double* scratch);               \
  double quadratic_cost(const CostTerm* terms, int64_t size, double* const* outputs);                  \
  }

TRAJ_INTEGRATOR_DECLARE_LOOPS(baseline)
TRAJ_INTEGRATOR_DECLARE_LOOPS(avx2)
TRAJ_INTEGRATOR_DECLARE_LOOPS(avx512)

#undef TRAJ_INTEGRATOR_DECLARE_LOOPS

// "baseline", "avx2" or "avx512", chosen once: the best that the CPU has, or what the environment asks for
// (TRAJ_INTEGRATOR_INSTRUCTION_SET).
enum class InstructionSet { kBaseline, kAvx2, kAvx512 };
InstructionSet instruction_set();
const char* instruction_set_name();

// One of the instances for each instruction set.
template <class Function>
Function chosen([[maybe_unused]] Function avx512, [[maybe_unused]] Function avx2, Function baseline) {
#if defined(__x86_64__)
  if (instruction_set() == InstructionSet::kAvx512) return avx512;
  if (instruction_set() == InstructionSet::kAvx2) return avx2;
#endif
  return baseline;
}

#if defined(__x86_64__)
#define TRAJ_INTEGRATOR_CHOSEN(function) chosen(&avx512::function, &avx2::function, &baseline::function)
#else
#define TRAJ_INTEGRATOR_CHOSEN(function) (&baseline::function)
#endif

// Of float or double.
template <class Scalar>
Loop<Scalar> forward_loop() {
  return TRAJ_INTEGRATOR_CHOSEN(forward<Scalar>);
}
template <class Scalar>
Loop<Scalar> vjp_loop() {
  return TRAJ_INTEGRATOR_CHOSEN(vjp<Scalar>);
}
inline CostLoop cost_loop() { return TRAJ_INTEGRATOR_CHOSEN(quadratic_cost); }

#undef TRAJ_INTEGRATOR_CHOSEN

}  // namespace traj_integrator
