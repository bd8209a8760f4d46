// The rows for CPUs with AVX2; row_loops() decides at run time.
#include "rows.h"

#if defined(__x86_64__) && defined(__GNUC__) && !defined(__clang__)
// Behind every standard header: only the loops may be compiled for it.
#pragma GCC target("avx2,fma,f16c,prfchw")
#define INSTRUCTION_SET avx2
#define VECTOR_BYTES 32
#include "rows.inc"
#endif
