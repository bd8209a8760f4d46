"""The suites; importing this registers them."""

from . import answering, cpu, cuda, engine, one, ros, scaling  # noqa: F401
