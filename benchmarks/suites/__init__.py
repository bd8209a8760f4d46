"""The suites; importing this registers them."""

from . import (  # noqa: F401
    cpu_entries,
    cpu_kernels,
    cpu_splines,
    cuda,
    engine,
    execution,
    ros,
    scaling,
)
