#include "instruction_set.h"

#if defined(__x86_64__)
#include <cpuid.h>
#endif

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
  constexpr unsigned kYmm = 0x06, kAvx2 = 1u << 5;
  const bool has_avx2 = __get_cpuid_count(7, 0, &a, &b, &c, &d) != 0 && bits(kept, kYmm) && bits(b, kAvx2);
  return has_avx2 ? InstructionSet::kAvx2 : InstructionSet::kBaseline;
#else
  return InstructionSet::kBaseline;
#endif
}

}  // namespace

InstructionSet instruction_set() {
  static const InstructionSet best = [] {
    const char* wish = std::getenv("TRAJ_INTEGRATOR_INSTRUCTION_SET");
    return wish != nullptr && std::string(wish) == "baseline" ? InstructionSet::kBaseline : supported();
  }();
  return best;
}

const char* instruction_set_name() { return instruction_set() == InstructionSet::kAvx2 ? "avx2" : "baseline"; }

}  // namespace traj_integrator
