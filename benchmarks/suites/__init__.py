"""The suites; importing this registers them."""

from . import cpu_kernels  # noqa: F401
