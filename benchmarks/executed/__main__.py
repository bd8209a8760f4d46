"""Prints all lines of the table in docs/execution.md: `python -m benchmarks.executed [FOLDER] [--quick]`.

FOLDER has recordings of robots; without it, a planned motion is used instead. Returns 1 if a bound is not kept.
"""

from __future__ import annotations

import argparse
import sys
from pathlib import Path

from .cases import items, met
from .playing import Node, RowsAsPoints

_HEAD = ("what is sent", "figure", "bound", "rows as points", "the node", "")


def main() -> int:
    """Measure and print, as Markdown; return 0 if every bound is kept."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.executed", description=__doc__.splitlines()[0])
    parser.add_argument("folder", type=Path, nargs="?", help="recordings; without it, a planned motion")
    parser.add_argument("--quick", action="store_true", help="fewer motions")
    arguments = parser.parse_args()
    print("| " + " | ".join(_HEAD) + " |")
    print("|---" * len(_HEAD) + "|")
    kept = True
    for item in items(arguments.folder, quick=arguments.quick):
        before, now = item.measure(RowsAsPoints), item.measure(Node)
        kept &= met(item, now)
        verdict = "met" if met(item, now) else "**missed**"
        cells = (item.what, item.figure, f"{item.bound:g}", _number(before), _number(now), verdict)
        print("| " + " | ".join(cells) + " |")
    return 0 if kept else 1


def _number(value: float) -> str:
    if value < 1e-6:
        return "0"
    return f"{value:.0f}" if value >= 100 else f"{value:.3g}"


if __name__ == "__main__":
    sys.exit(main())
