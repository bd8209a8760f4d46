"""Needs of each Triton kernel, compiled without a GPU: registers, shared memory, bytes, and their consequences."""
