// The loops for any CPU.
#include "problem.h"

#define INSTRUCTION_SET baseline
#include "loops.inc"
