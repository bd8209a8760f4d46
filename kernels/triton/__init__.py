"""The control maps as CUDA kernels written in Triton.

Importing this package imports neither triton nor a kernel: each module below does, and is imported by the first launch.
Forward and vjp (vector-Jacobian product, the transposed map) of

===================  ===========================================================
`chain`              positions (backward differences), velocities, accelerations, jerks
`clique_central`     positions (central differences)
`bspline`            control points
===================  ===========================================================

Each file has launchers and kernels of one map. What they share: `launch` (host), `addressing` (device),
`start_gradients` (gradients of start pools), `probe` (whether a kernel can run at all). The gradient of the step
lengths is composed of operations of torch (`derivatives`).

Every `<map>_forward` takes contiguous or strided tensors (strided ones are copied first), start rows `[1 or B, D]` or a
pool `[S, D]` with `start_index`, and `dt` in seconds as `[1 or B, 1 or H]`, and allocates its outputs unless `out` is
given. Every `<map>_vjp` takes the upstream gradients, None for absent ones. No launcher reads device memory on the host
or waits for the device, and equal shapes and flags always give the same launches: all of them can be captured into a
CUDA graph. A `start_index` out of its pool's range reads nothing and gives NaN.
"""
