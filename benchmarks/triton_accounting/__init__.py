"""What each Triton kernel needs on GPUs that are not there: registers, shared memory, bytes, and what follows of it."""
