"""`python -m benchmarks.retiming turning | margins | peers [--count N] [--seed K]`.

Prints what it finds; returns 1 if a goal is not reached. `peers` needs `pip install -r requirements/peers.txt`.
"""

from __future__ import annotations

import argparse
import sys
import time

import numpy as np

from traj_integrator_ros.kernels.retime import RetimeStatus

from . import executed as playing
from . import peers
from . import turning as swings


def main() -> int:
    """Run the benchmarks asked for."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.retiming", description=__doc__.splitlines()[0])
    parser.add_argument("what", choices=tuple(_COMMANDS))
    parser.add_argument("--count", type=int, help="of random cases (default: 3000, 12 or 20)")
    parser.add_argument("--seed", type=int, default=0, help="of the random cases")
    options = parser.parse_args()
    return 0 if _COMMANDS[options.what](options) else 1


def turning(options: argparse.Namespace) -> bool:
    """Retime paths that turn back; none may fail."""
    print(f"| {'family':14} | paths | failed | with rests | by order 2: median | by bends: median, 90 %, most | ms |")
    print("|---|---|---|---|---|---|---|")
    every: list[swings.Timed] = []
    for family in swings.FAMILIES:
        began = time.process_time()
        paths = swings.turning_paths(family, (options.count or 3000) // len(swings.FAMILIES), options.seed)
        found = [swings.time_path(path) for path in paths]
        each_ms = 1e3 * (time.process_time() - began) / len(found)
        for index, timed in enumerate(found):
            if timed.failure:
                print(f"{family} {index}, {list(timed.problem.waypoints.shape)}: {timed.failure}")
        print(f"{_turning_row(family, found)} {each_ms:.1f} |", flush=True)
        every += found
    print(f"{_turning_row('all', every)} |")
    return not any(timed.failure for timed in every)


def _turning_row(name: str, found: list[swings.Timed]) -> str:
    moved = [timed for timed in found if timed.bent > 0]
    by_order_2 = np.median([float(timed.motion.duration[0]) / timed.second_order for timed in moved])
    by_bends = ", ".join(f"{each:.3f}" for each in np.quantile([timed.ratio for timed in moved], [0.5, 0.9, 1]))
    rests = sum(int(timed.motion.status[0]) == RetimeStatus.WITH_RESTS for timed in found)
    failed = sum(bool(timed.failure) for timed in found)
    return f"| {name:14} | {len(found)} | {failed} | {rests} | {by_order_2:.3f} | {by_bends} |"


def margins(options: argparse.Namespace) -> bool:
    """Print the table of "How close to the limits may I plan"."""
    print("| rows | dt, s | velocity | acceleration | jerk |\n|---|---|---|---|---|")
    for space, dt, worst in playing.margins(options.count or 12, options.seed):
        print(f"| {space.name.lower()} | {dt:g} | " + " | ".join(f"{each:.4f}" for each in worst) + " |", flush=True)
    return True


def compared(options: argparse.Namespace) -> bool:
    """Compare with other retimers."""
    peers.compare(options.count, options.seed)
    return True


_COMMANDS = {each.__name__: each for each in (turning, margins)} | {"peers": compared}

if __name__ == "__main__":
    sys.exit(main())
