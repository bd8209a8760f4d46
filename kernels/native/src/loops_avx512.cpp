// The loops for CPUs with AVX-512; `instruction_set.cpp` decides at run time.
#include "instruction_set.h"

#if defined(__x86_64__)
// Behind every standard header: only the loops may be compiled for it.
#if defined(__clang__)
#pragma clang attribute push(__attribute__((target("avx2,fma,f16c,prfchw,avx512f,avx512dq,avx512bw,avx512vl"))), apply_to = function)
#else
#pragma GCC target("avx2,fma,f16c,prfchw,avx512f,avx512dq,avx512bw,avx512vl,prefer-vector-width=512")
#endif
#define INSTRUCTION_SET avx512
#define VECTOR_BYTES 64
#define HAS_AVX512
#include "loops.inc"
#if defined(__clang__)
#pragma clang attribute pop
#endif
#endif
