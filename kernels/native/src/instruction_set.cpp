#include "instruction_set.h"

#if defined(__x86_64__)
#include <cpuid.h>
#endif

#include <algorithm>
#include <cstdlib>
#include <string>

namespace traj_integrator {
namespace {

InstructionSet supported() {
#if defined(__x86_64__)
  // Asked of the CPU here: some compilers' libraries lack what __builtin_cpu_supports reads.
  unsigned a = 0, b = 0, c = 0, d = 0;
  const auto bits = [](unsigned value, unsigned wanted) { return (value & wanted) == wanted; };
  constexpr unsigned kOsxsave = 1u << 27, kFma = 1u << 12, kF16c = 1u << 29;
  if (__get_cpuid_count(1, 0, &a, &b, &c, &d) == 0 || !bits(c, kOsxsave | kFma | kF16c)) return InstructionSet::kBaseline;
  unsigned kept = 0, kept_high = 0;  // registers that the system saves
  asm volatile("xgetbv" : "=a"(kept), "=d"(kept_high) : "c"(0));
  constexpr unsigned kYmm = 0x06, kZmm = 0xe6;
  constexpr unsigned kAvx2 = 1u << 5, kAvx512 = 1u << 16 | 1u << 17 | 1u << 30 | 1u << 31;  // F, DQ, BW, VL
  if (__get_cpuid_count(7, 0, &a, &b, &c, &d) == 0 || !bits(kept, kYmm) || !bits(b, kAvx2)) return InstructionSet::kBaseline;
  return bits(kept, kZmm) && bits(b, kAvx512) ? InstructionSet::kAvx512 : InstructionSet::kAvx2;
#else
  return InstructionSet::kBaseline;
#endif
}

}  // namespace

InstructionSet instruction_set() {
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

const char* instruction_set_name() {
  constexpr const char* kNames[] = {"baseline", "avx2", "avx512"};
  return kNames[static_cast<int>(instruction_set())];
}

}  // namespace traj_integrator
