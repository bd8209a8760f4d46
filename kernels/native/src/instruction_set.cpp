#include "instruction_set.h"

#include <cstdlib>
#include <string>

namespace traj_integrator {
namespace {

enum class InstructionSet { kBaseline, kAvx2, kAvx512 };

InstructionSet supported() {
#if defined(__x86_64__) && defined(__GNUC__) && !defined(__clang__)
  __builtin_cpu_init();
  const bool avx2 = __builtin_cpu_supports("avx2") && __builtin_cpu_supports("fma");
  const bool avx512 = __builtin_cpu_supports("avx512f") && __builtin_cpu_supports("avx512dq") &&
                      __builtin_cpu_supports("avx512bw") && __builtin_cpu_supports("avx512vl");
  if (avx2 && avx512) return InstructionSet::kAvx512;
  if (avx2) return InstructionSet::kAvx2;
#endif
  return InstructionSet::kBaseline;
}

InstructionSet chosen() {
  static const InstructionSet best = [] {
    const InstructionSet most = supported();
    const char* wish = std::getenv("TRAJ_INTEGRATOR_INSTRUCTION_SET");
    if (wish == nullptr) return most;
    const std::string name = wish;
    if (name == "baseline") return InstructionSet::kBaseline;
    if (name == "avx2") return std::min(most, InstructionSet::kAvx2);
    return most;
  }();
  return best;
}

}  // namespace

const char* instruction_set_name() {
  constexpr const char* kNames[] = {"baseline", "avx2", "avx512"};
  return kNames[static_cast<int>(chosen())];
}

template <class Scalar>
Loop<ForwardProblem<Scalar>> forward_loop() {
#if defined(__x86_64__) && defined(__GNUC__) && !defined(__clang__)
  if (chosen() == InstructionSet::kAvx512) return avx512::forward;
  if (chosen() == InstructionSet::kAvx2) return avx2::forward;
#endif
  return baseline::forward;
}

template <class Scalar>
Loop<VjpProblem<Scalar>> vjp_loop() {
#if defined(__x86_64__) && defined(__GNUC__) && !defined(__clang__)
  if (chosen() == InstructionSet::kAvx512) return avx512::vjp;
  if (chosen() == InstructionSet::kAvx2) return avx2::vjp;
#endif
  return baseline::vjp;
}

CostLoop cost_loop() {
#if defined(__x86_64__) && defined(__GNUC__) && !defined(__clang__)
  if (chosen() == InstructionSet::kAvx512) return avx512::quadratic_cost;
  if (chosen() == InstructionSet::kAvx2) return avx2::quadratic_cost;
#endif
  return baseline::quadratic_cost;
}

template Loop<ForwardProblem<float>> forward_loop<float>();
template Loop<ForwardProblem<double>> forward_loop<double>();
template Loop<VjpProblem<float>> vjp_loop<float>();
template Loop<VjpProblem<double>> vjp_loop<double>();

}  // namespace traj_integrator
