// The loops for CPUs with AVX2; `instruction_set.cpp` decides at run time.
#include "instruction_set.h"

#if defined(__x86_64__)
// Behind every standard header: only the loops may be compiled for it.
#if defined(__clang__)
#pragma clang attribute push(__attribute__((target("avx2,fma,f16c,prfchw"))), apply_to = function)
#else
#pragma GCC target("avx2,fma,f16c,prfchw")
#endif
#define INSTRUCTION_SET avx2
#define VECTOR_BYTES 32
#define HAS_FMA
#include "loops.inc"
#if defined(__clang__)
#pragma clang attribute pop
#endif
#endif
