// The loops for CPUs with AVX2; `instruction_set.cpp` decides at run time.
#include "problem.h"

#if defined(__x86_64__) && defined(__GNUC__) && !defined(__clang__)
// Behind every standard header: only the loops may be compiled for it.
#pragma GCC target("avx2,fma,f16c,prfchw")
#define INSTRUCTION_SET avx2
#define VECTOR_BYTES 32
#define ROWS_IN_REGISTERS  // not __AVX2__: a pragma does not define it in every GCC
#include "loops.inc"
#endif
