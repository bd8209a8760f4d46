"""The suites; importing this registers them. Suites that need more than torch import it when they run."""

from __future__ import annotations

import importlib
import importlib.util
from collections.abc import Iterator
from functools import partial

from ..registry import CannotRun, Case, suite
from . import cpu, cuda, one, scaling  # noqa: F401


def _cases(module: str, name: str, needed: tuple[str, ...], quick: bool) -> Iterator[Case]:
    for library in needed:
        if importlib.util.find_spec(library) is None:
            raise CannotRun(f"{library} cannot be imported")
    yield from getattr(importlib.import_module(module, "benchmarks"), name)(quick)


_ROS = "rclpy", "traj_integrator_interfaces"
for _module, _name, _needed in (
    (".answering", "answering", ("ruckig",)),
    (".ros.latency", "ros_latency", _ROS),
    (".ros.costs", "message_costs", _ROS),
):
    suite(_name)(partial(_cases, _module, _name, _needed))
