// The loops for CPUs with AVX-512; `instruction_set.cpp` decides at run time.
#include "problem.h"

#if defined(__x86_64__) && defined(__GNUC__) && !defined(__clang__)
// Behind every standard header: only the loops may be compiled for it.
#pragma GCC target("avx2,fma,f16c,prfchw,avx512f,avx512dq,avx512bw,avx512vl,prefer-vector-width=512")
#define INSTRUCTION_SET avx512
#define VECTOR_BYTES 64
#define HAS_AVX512
#define ROWS_IN_REGISTERS  // not __AVX2__: a pragma does not define it in every GCC
#include "loops.inc"
#endif
