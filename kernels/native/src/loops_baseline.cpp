// The loops for any CPU.
#include "instruction_set.h"

#define INSTRUCTION_SET baseline
#define VECTOR_BYTES 16
#include "loops.inc"
