// The rows for any CPU, and the choice of the CPU's own.
#include "rows.h"

#include <cstdlib>
#include <string_view>

#define INSTRUCTION_SET baseline
#define VECTOR_BYTES 16
#include "rows.inc"

namespace traj_integrator::retiming {

#if defined(__x86_64__) && defined(__GNUC__) && !defined(__clang__)
namespace avx2 {
extern const RowLoops row_loops;
}
namespace avx512 {
extern const RowLoops row_loops;
}

// As for the other kernels (instruction_set.cpp), TRAJ_INTEGRATOR_INSTRUCTION_SET asks for less than the CPU has.
const RowLoops& row_loops() {
  static const RowLoops& chosen = []() -> const RowLoops& {
    __builtin_cpu_init();
    const char* const given = std::getenv("TRAJ_INTEGRATOR_INSTRUCTION_SET");
    const std::string_view wish = given == nullptr ? "" : given;
    const bool has_avx2 = __builtin_cpu_supports("avx2") && __builtin_cpu_supports("fma");
    const bool has_avx512 = has_avx2 && __builtin_cpu_supports("avx512f") && __builtin_cpu_supports("avx512dq") &&
                            __builtin_cpu_supports("avx512bw") && __builtin_cpu_supports("avx512vl");
    if (wish == "baseline" || !has_avx2) return baseline::row_loops;
    return has_avx512 && wish != "avx2" ? avx512::row_loops : avx2::row_loops;
  }();
  return chosen;
}
#else
const RowLoops& row_loops() { return baseline::row_loops; }
#endif

}  // namespace traj_integrator::retiming
