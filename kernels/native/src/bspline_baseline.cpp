// The loops over splines for any CPU.
#include <algorithm>
#include <cstdint>
#include <cstring>

#include "bspline.h"

#define INSTRUCTION_SET baseline
#include "bspline_loops.inc"
