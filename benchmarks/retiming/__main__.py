"""`python -m benchmarks.retiming problems | executed | certificate | margins | peers [--count N] [--seed K]`.

Prints what it finds; returns 1 if a goal is not reached. `peers` needs `pip install -r requirements/peers.txt`.
"""

from __future__ import annotations

import argparse
import sys
import time
from collections import Counter
from pathlib import Path

import numpy as np

from soak.streams.model import load_module
from traj_integrator_ros.kernels.retime import RetimeStatus


def main() -> int:
    """Run what is asked for."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.retiming", description=__doc__.splitlines()[0])
    parser.add_argument("what", choices=tuple(_COMMANDS))
    parser.add_argument("--count", type=int, help="of random cases (default: 1000; certificate: a million)")
    parser.add_argument("--seed", type=int, default=0, help="of the random cases")
    parser.add_argument("--controller", type=Path, help="executed: a module that models the controller")
    parser.add_argument("--out", type=Path, help="peers: results as JSON")
    parser.add_argument("--stations", type=int, nargs="+", default=[400], help="peers: of copp-py (default: 400)")
    options = parser.parse_args()
    return 0 if _COMMANDS[options.what](options) else 1


def problems(options: argparse.Namespace) -> bool:
    """Solve hard problems; at most one of a thousand may fail."""
    from .problems import Solved, solve
    from .problems import problems as chosen

    found: dict[str, list[tuple[Solved, float]]] = {}
    for problem in chosen(options.count or 1000, options.seed):
        began = time.perf_counter()
        solved = solve(problem)
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
    from .executed import MOST, executed_ratios, random_motion

    model = None if options.controller is None else load_module(options.controller)
    rng, found, failed = np.random.default_rng(options.seed), [], 0
    for case in range(options.count or 1000):
        motion, limits = random_motion(rng)
        if not bool(motion.ok.all()):
            failed += 1
            print(f"case {case}: {motion.reason(0)}")
            continue
        found.append(executed_ratios(motion, limits, model))
        if found[-1].max() > MOST:
            print(f"case {case}: {found[-1]}")
    worst = np.max(found, axis=0)
    print(
        f"{len(found)} motions, {failed} without one; greatest velocity, acceleration, jerk: {worst.round(6).tolist()}"
    )
    return not failed and worst.max() <= MOST


def certificate(options: argparse.Namespace) -> bool:
    """Compare the certificate with samples."""
    from .certificates import ROUNDING, against_samples

    count = options.count or 1_000_000
    wrong, _ = against_samples(count, options.seed, 129)
    dense = max(1, min(500, count // 100))
    _, apart = against_samples(dense, options.seed, 100_001)
    print(f"{wrong} of {count} pieces exceed their certificate; {dense} differ from 100 kHz by {apart:.1e} at most")
    return not wrong and apart <= ROUNDING


def margins(options: argparse.Namespace) -> bool:
    """Print the table of "How close to the limits may I plan", and how many plans at their limits a node accepts."""
    from .executed import accepted
    from .executed import margins as measured

    print("| rows | dt, s | velocity | acceleration | jerk |\n|---|---|---|---|---|")
    for space, dt, worst in measured(options.count or 12, options.seed):
        print(f"| {space.name.lower()} | {dt:g} | " + " | ".join(f"{each:.4f}" for each in worst) + " |", flush=True)
    count, kept = options.count or 100, 0
    for action in ("reject", "retime"):
        kept, worst = accepted(action, count, options.seed)
        print(
            f"limits.action: {action}: {kept} of {count} plans accepted, executed at most {worst:.5f} of their limits"
        )
    return kept == count


def peers(options: argparse.Namespace) -> bool:
    """Compare with other retimers."""
    from .peers import compare

    compare(options.count, options.seed, options.out, options.stations)
    return True


_COMMANDS = {"problems": problems, "executed": executed, "certificate": certificate, "margins": margins, "peers": peers}

if __name__ == "__main__":
    sys.exit(main())
