// The loops over splines for CPUs with AVX2; `instruction_set.cpp` decides at run time.
#include <algorithm>
#include <cstdint>
#include <cstring>

#include "bspline.h"

#if defined(__x86_64__) && defined(__GNUC__) && !defined(__clang__)
#include <immintrin.h>
// Behind every standard header: only the loops may be compiled for it.
#pragma GCC target("avx2,fma,f16c,prfchw")
#define INSTRUCTION_SET avx2
#define VECTOR_BYTES 32
#define HAS_FMA
#include "bspline_loops.inc"
#endif
