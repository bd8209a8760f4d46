"""Compares the executor's command with the unconstrained optimum: `python -m soak.optimum [KIND ...]`.

Returns 1 if the command is far from it: its error is more than 1.15 times the least one, its acceleration more than
1.2 times the least one at that error, or a chunk is refused. `soak/streams/optimum.py` defines the kinds of chunks.
"""

from __future__ import annotations

import argparse
import sys

from .streams.optimum import KINDS, distance, table


def main() -> int:
    """Print the table; return 0 if no kind is far from its optimum."""
    parser = argparse.ArgumentParser(prog="python -m soak.optimum", description=__doc__.splitlines()[0])
    parser.add_argument("kinds", nargs="*", metavar="KIND", help=f"of {', '.join(KINDS)} (default: all)")
    parser.add_argument("--seeds", type=int, default=3, metavar="N", help="motions of each (default: %(default)s)")
    parser.add_argument("--first", type=int, default=0, metavar="K", help="the first seed (default: %(default)s)")
    arguments = parser.parse_args()
    if unknown := set(arguments.kinds) - set(KINDS):
        parser.error(f"KIND: expected {', '.join(KINDS)}, got {', '.join(sorted(unknown))}")
    seeds = range(arguments.first, arguments.first + arguments.seeds)
    found = {name: distance(KINDS[name], seeds) for name in arguments.kinds or KINDS}
    print("\n".join(table(found)))
    return int(any(each.far for each in found.values()))


if __name__ == "__main__":
    sys.exit(main())
