"""The suites; importing this registers them."""

from . import cpu, cuda, engine, execution, ros, scaling  # noqa: F401
