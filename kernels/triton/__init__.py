"""The control maps as CUDA kernels written in Triton.

Importing this package imports neither triton nor a kernel: each module below does, and is imported by the first launch.
`chain` (backward differences of positions, velocities, accelerations, jerks), `clique_central` and `bspline` have the
equations, forward kernel, vjp kernel and launchers of a map. They share `launch` (host) and `device` (functions of
kernels); `probe` finds out whether a kernel can run at all. The gradient of the step lengths is composed of operations
of torch (`derivatives`).

Launchers are those of `backends`. They read no device memory on the host and do not wait for the device, and equal
shapes and flags always give the same launches: all of them can be captured into a CUDA graph. A `start_index` out of
its pool's range reads nothing and gives NaN. All arithmetic is float64: the differences of neighbours leave too few
digits of float32, and the time goes into memory.
"""
