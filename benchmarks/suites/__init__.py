"""The suites; importing this registers them."""

from . import cpu_kernels, ros_latency  # noqa: F401
