// The rows for every instruction set, and the choice of the CPU's own at run time.
#include "rows.h"

#include "instruction_set.h"

#define INSTRUCTION_SET baseline
#define VECTOR_BYTES 16
#include "rows.inc"
#undef INSTRUCTION_SET
#undef VECTOR_BYTES

#if defined(__x86_64__) && defined(__GNUC__) && !defined(__clang__)
// Behind every standard header: only the loops may be compiled for it.
#pragma GCC push_options
#pragma GCC target("avx2,fma,f16c,prfchw")
#define INSTRUCTION_SET avx2
#define VECTOR_BYTES 32
#include "rows.inc"
#pragma GCC pop_options

namespace traj_integrator::retiming {
const RowLoops& row_loops() { return *chosen(&avx2::row_loops, &baseline::row_loops); }
}  // namespace traj_integrator::retiming
#else
namespace traj_integrator::retiming {
const RowLoops& row_loops() { return baseline::row_loops; }
}  // namespace traj_integrator::retiming
#endif
