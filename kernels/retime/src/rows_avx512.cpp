// The rows for CPUs with AVX-512; row_loops() decides at run time.
#include "rows.h"

#if defined(__x86_64__) && defined(__GNUC__) && !defined(__clang__)
// Behind every standard header: only the loops may be compiled for it.
#pragma GCC target("avx2,fma,f16c,prfchw,avx512f,avx512dq,avx512bw,avx512vl,prefer-vector-width=512")
#define INSTRUCTION_SET avx512
#define VECTOR_BYTES 64
#include "rows.inc"
#endif
