"""Prints the table of docs/execution.md: `python -m benchmarks.executed [FOLDER] [--controller JTC.PY]`.

FOLDER has recordings of robots; without it, a planned motion is used instead. Returns 1 if a bound is not kept.
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Callable
from pathlib import Path
from types import ModuleType

import numpy as np

from soak.streams.core import Message
from soak.streams.model import load_module
from traj_integrator_ros.execution.motion import State

from .cases import Item, items, met
from .controller import CYCLE_NS, Commanded
from .senders import Node, RowsAsPoints

_HEAD = ("what is sent", "figure", "bound", "rows as points", "the node", "")


class OtherController:
    """A controller from a module that models one with blending, behind the interface of our own model."""

    def __init__(self, module: ModuleType, start: State, begin_ns: int, **settings: bool) -> None:
        self._joints = [f"joint{i}" for i in range(len(start.position))]
        self._controller = module.Controller(
            self._joints, 1e9 / CYCLE_NS, allow_nonzero_velocity_at_trajectory_end=True, **settings
        )
        self._controller.set_state(*start)
        self._begin_ns = self._cycle_ns = begin_ns
        self._commands = [np.stack(start)]
        self._joining: list[bool] = [False]
        self._joined_ns = 0

    def receive(self, message: Message, now_ns: int) -> None:
        """A message that arrives."""
        self.run(now_ns)
        now, stamp = self._cycle_ns * 1e-9, message.stamp_ns * 1e-9
        if not self._controller.receive(self._joints, *message.points, now=now, stamp=stamp):
            raise RuntimeError(self._controller.refusal)
        self._joined_ns = max(message.stamp_ns, self._cycle_ns) + 2 * CYCLE_NS

    def run(self, until_ns: int) -> None:
        """All cycles before a time."""
        while self._cycle_ns < until_ns:
            self._commands.append(np.stack(self._controller.update(self._cycle_ns * 1e-9)))
            self._cycle_ns += CYCLE_NS
            self._joining.append(self._cycle_ns <= self._joined_ns)

    def commanded(self) -> Commanded:
        """All commands."""
        return Commanded(*np.stack(self._commands, axis=1)[:2], np.array(self._joining))


def table(lines: list[Item], report: Callable[[str], None] = print) -> bool:
    """Measure and print, as Markdown; whether all bounds are kept."""
    report("| " + " | ".join(_HEAD) + " |")
    report("|---" * len(_HEAD) + "|")
    kept = True
    for item in lines:
        before, now = item.measure(RowsAsPoints), item.measure(Node)
        good = met(item, now)
        kept &= good
        bound = f"{item.bound:g}" if np.isfinite(item.bound) else "none"
        verdict = ("met" if good else "**missed**") if np.isfinite(item.bound) else "the controller's"
        cells = (item.what, item.figure, bound, _number(before), _number(now), verdict)
        report("| " + " | ".join(cells) + " |")
    return kept


def _number(value: float) -> str:
    if value < 1e-6:
        return "0"
    return f"{value:.0f}" if value >= 100 else f"{value:.3g}"


def main() -> int:
    """Return 0 if every bound is kept."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.executed", description=__doc__.splitlines()[0])
    parser.add_argument("folder", type=Path, nargs="?", help="recordings; without it, a planned motion")
    blends = "Python file with a model of the controller that blends trajectories; without it, those lines are left out"
    parser.add_argument("--controller", type=Path, help=blends)
    parser.add_argument("--quick", action="store_true", help="fewer motions")
    arguments = parser.parse_args()
    blending = None
    if arguments.controller is not None:
        module = load_module(arguments.controller)

        def blending(start: State, begin_ns: int) -> OtherController:
            return OtherController(module, start, begin_ns)

    return 0 if table(list(items(arguments.folder, blending, quick=arguments.quick))) else 1


if __name__ == "__main__":
    sys.exit(main())
