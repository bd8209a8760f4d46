"""`python -m benchmarks.retiming problems | executed | turning | margins | peers [--count N] [--seed K]`.

Prints what it finds; returns 1 if a goal is not reached. `peers` needs `pip install -r requirements/peers.txt`.
"""

from __future__ import annotations

import argparse
import sys
import time
from collections import Counter
from pathlib import Path

import numpy as np

from traj_integrator_ros.kernels.retime import RetimeStatus

from . import executed as playing
from . import peers
from . import problems as hard
from . import turning as swings


def main() -> int:
    """Run the benchmarks asked for."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.retiming", description=__doc__.splitlines()[0])
    parser.add_argument("what", choices=tuple(_COMMANDS))
    parser.add_argument("--count", type=int, help="of random cases (default: 1000, 12 or 20)")
    parser.add_argument("--seed", type=int, default=0, help="of the random cases")
    parser.add_argument("--out", type=Path, help="peers: results as JSON")
    parser.add_argument("--stations", type=int, nargs="+", default=[400], help="peers: of copp-py (default: 400)")
    options = parser.parse_args()
    return 0 if _COMMANDS[options.what](options) else 1


def problems(options: argparse.Namespace) -> bool:
    """Solve hard problems; at most one of a thousand may fail."""
    found: dict[str, list[tuple[hard.Solved, float]]] = {}
    for problem in hard.problems(options.count or 1000, options.seed):
        began = time.perf_counter()
        solved = hard.solve(problem)
        found.setdefault(problem.family, []).append((solved, 1e3 * (time.perf_counter() - began)))
        if solved.failure:
            print(f"{problem.family}, order {problem.order}, {list(problem.waypoints.shape)}: {solved.failure}")
    print(f"| {'family':16} | cases | failed | worst ratio | slowest, ms |\n|---|---|---|---|---|")
    for family, of_it in found.items():
        failed = sum(bool(solved.failure) for solved, _ in of_it)
        worst, slowest = max(float(solved.ratio.max()) for solved, _ in of_it), max(took for _, took in of_it)
        print(f"| {family:16} | {len(of_it)} | {failed} | {worst:.6f} | {slowest:.1f} |")
    all_solved = [solved for of_it in found.values() for solved, _ in of_it]
    failures = sum(bool(solved.failure) for solved in all_solved)
    statuses = Counter(RetimeStatus(int(solved.motion.status[0])).name for solved in all_solved)
    print(f"{failures} of {len(all_solved)} failed; {dict(statuses)}")
    return failures <= len(all_solved) / 1000


def executed(options: argparse.Namespace) -> bool:
    """Play random motions; none may exceed a limit by more than 0.1 %."""
    rng, found, failed = np.random.default_rng(options.seed), [], 0
    for case in range(options.count or 1000):
        motion, limits = playing.random_motion(rng)
        if not bool(motion.ok.all()):
            failed += 1
            print(f"case {case}: {motion.reason(0)}")
            continue
        found.append(playing.executed_ratios(motion, limits))
        if found[-1].max() > playing.MOST:
            print(f"case {case}: {found[-1]}")
    worst = np.max(found, axis=0)
    greatest = f"greatest velocity, acceleration, jerk: {worst.round(6).tolist()}"
    print(f"{len(found)} motions, {failed} without one; {greatest}")
    return not failed and worst.max() <= playing.MOST


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
                print(f"{family} {index}, {list(timed.turning.waypoints.shape)}: {timed.failure}")
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
    peers.compare(options.count, options.seed, options.out, options.stations)
    return True


_COMMANDS = {each.__name__: each for each in (problems, executed, turning, margins)} | {"peers": compared}

if __name__ == "__main__":
    sys.exit(main())
