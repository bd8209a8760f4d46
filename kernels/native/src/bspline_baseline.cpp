// The loops over splines for any CPU.
#include <algorithm>
#include <cstdint>
#include <cstring>

#include "bspline.h"

#define INSTRUCTION_SET baseline
#define VECTOR_BYTES 16
#include "bspline_loops.inc"
