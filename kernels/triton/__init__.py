"""The control maps as CUDA kernels written in Triton.

Importing this package imports neither triton nor a kernel: each module below does, and is imported by the first launch.
`chain` (backward differences of positions, velocities, accelerations, jerks; with `differences`) and `control_points`
(B-splines, central differences; with `ends`) have equations, a kernel for each direction and its launchers.
They share `launch` (host), `device`, `pairs` (functions of kernels); `probe` finds out whether any can run. The
gradient of the step lengths is composed of operations of torch (`derivatives`).

Launchers are those of `backends`. They read no device memory on the host and do not wait for the device, and equal
shapes and flags always give the same launches: all of them can be captured into a CUDA graph. A `start_index` out of
its pool's range reads nothing and gives NaN. Arithmetic has the width of the data, but not less than float32, and keeps
what it rounds off where neighbours are subtracted or long sums carried on (`pairs`).
"""
