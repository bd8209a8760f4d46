// The rows for any CPU, and the choice of the CPU's own.
#include "instruction_set.h"
#include "rows.h"

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

const RowLoops& row_loops() { return *chosen(&avx512::row_loops, &avx2::row_loops, &baseline::row_loops); }
#else
const RowLoops& row_loops() { return baseline::row_loops; }
#endif

}  // namespace traj_integrator::retiming
