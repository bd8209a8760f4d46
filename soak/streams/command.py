"""`python -m soak --random`: thousands of random streams, judged in every cycle; prints one line for each failure."""

from __future__ import annotations

import argparse
import multiprocessing
import os
import signal
import sys
import time
import traceback
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

import torch

from benchmarks.chunks import KINDS
from benchmarks.optimum import Distance, distance, table
from rig.simulated import Refusal

from ..settings import add_setting
from .invariants import Failure, failures
from .scenes import random_scene
from .simulation import Run, simulate

EXIT_FAILED = 1
EXIT_INTERRUPTED = 130
STREAMS_PER_MOTION = 500
"""Number of streams for each motion whose distance from the optimum is measured, which takes 8 s."""


class Task(NamedTuple):
    """One seed, and how it is simulated."""

    seed: int
    parameters: dict
    with_state: bool = True

    def simulate(self) -> Run:
        """Simulate the seed."""
        return simulate(random_scene(self.seed, with_state=self.with_state), **self.parameters)


class Verdict(NamedTuple):
    """Judgement of one seed."""

    seed: int
    failures: list[Failure]
    chunks: int
    refused: Counter
    seconds: float
    """Duration of the simulated stream, s."""


def main(arguments: list[str]) -> int:
    """Run seeds; return 0 if none fails, 1 if some do."""
    options = _options(arguments)
    seeds = range(options.first, options.first + options.seeds) if options.seed is None else [options.seed]
    tasks = [Task(seed, dict(options.set), not options.without_state) for seed in seeds]
    began, done, interrupted = time.monotonic(), [], False
    try:
        for verdict in _verdicts(tasks, options.workers):
            done.append(verdict)
            for failure in verdict.failures:
                print(f"FAILED {failure}", flush=True)
    except KeyboardInterrupt:
        interrupted = True
    _summarize(done, time.monotonic() - began)
    if not interrupted and (motions := len(done) // STREAMS_PER_MOTION):
        print("\n" + "\n".join(table(_distances(range(options.first, options.first + motions), options.workers))))
    if interrupted:
        print(f"soak: interrupted after {len(done)} of {len(tasks)} streams", file=sys.stderr)
        return EXIT_INTERRUPTED
    return EXIT_FAILED if any(verdict.failures for verdict in done) else 0


def _options(arguments: list[str]) -> argparse.Namespace:
    about = "random streams, judged in every cycle; a line for each failure."
    parser = argparse.ArgumentParser(prog="python -m soak --random", description=about)
    add = parser.add_argument
    add("--random", action="store_true", help="random streams, as here")
    add("--seeds", type=int, default=1000, metavar="N", help="how many (default: %(default)s)")
    add("--first", type=int, default=0, metavar="K", help="the first of them (default: %(default)s)")
    add("--seed", type=int, metavar="K", help="this one only")
    add("--workers", type=int, default=os.cpu_count() or 1, metavar="N", help="processes (default: all cores)")
    alone = "the controller publishes no state; then on an arm without droop, noise, quantization and restarts"
    add("--without-state", action="store_true", help=alone)
    add_setting(parser)
    return parser.parse_args(arguments)


def judged(task: Task) -> Verdict:
    """Simulate and judge one seed; an exception is a failure, too."""
    torch.set_num_threads(1)
    try:
        run = task.simulate()
        found = failures(run)
    except Exception as error:
        place = traceback.extract_tb(error.__traceback__)[-1]
        words = f"{type(error).__name__}: {error} ({Path(place.filename).name}:{place.lineno})"
        return Verdict(task.seed, [Failure(task.seed, "error", "", float("nan"), 1, 0, words)], 0, Counter(), 0.0)
    refused = Counter(it.answer.reason for it in run.answers if isinstance(it.answer, Refusal))
    return Verdict(task.seed, found, len(run.answers), refused, len(run.off) * run.period_ns * 1e-9)


def _verdicts(tasks: list[Task], workers: int) -> Iterator[Verdict]:
    if workers == 1 or len(tasks) == 1:
        yield from map(judged, tasks)
        return
    with multiprocessing.get_context("fork").Pool(workers, signal.signal, (signal.SIGINT, signal.SIG_IGN)) as pool:
        yield from pool.imap(judged, tasks, chunksize=4)


def _distances(seeds: range, workers: int) -> dict[str, Distance]:
    with multiprocessing.get_context("fork").Pool(workers) as pool:
        found = pool.starmap(distance, [(kind, seeds) for kind in KINDS.values()], chunksize=1)
    return dict(zip(KINDS, found, strict=True))


def _summarize(done: list[Verdict], took_s: float) -> None:
    failed = sum(bool(verdict.failures) for verdict in done)
    counts = Counter(failure.invariant for verdict in done for failure in verdict.failures)
    refused = sum((verdict.refused for verdict in done), Counter())
    chunks, seconds = sum(verdict.chunks for verdict in done), sum(verdict.seconds for verdict in done)
    print(f"\n{failed} of {len(done)} streams failed ({seconds:.0f} s of motion, {chunks} chunks, in {took_s:.0f} s)")
    for invariant, count in counts.most_common():
        print(f"  {invariant:14} {count}")
    if refused:
        print("  chunks refused: " + ", ".join(f"{reason} {count}" for reason, count in refused.most_common()))
