"""The suites; importing this registers them."""

from . import cpu_kernels, cpu_splines, cuda_kernels, engine, execution, ros_latency, ros_messages, scaling  # noqa: F401
