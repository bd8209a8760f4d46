"""Runs the benchmarks: `python -m benchmarks [--quick] [--keep] [--suite NAME ...]`.

`--show [MACHINE]` prints kept results and measures nothing.

Every result is checked before it is timed; for a wrong one no speed is reported, and the run fails. Prints tables,
writes build/bench/<suite>.json, and with --keep benchmarks/results/<machine>/<suite>.json.
"""

from __future__ import annotations

import argparse
import sys
from pathlib import Path

import torch

from . import report
from .registry import SUITES, CannotRun, Case, cases_of
from .report import Row, machine_name
from .timing import interleaved, repeated

ROOT = Path(__file__).resolve().parent.parent
RESULTS = ROOT / "benchmarks" / "results"


def main() -> int:
    """Return 0 if every result was right."""
    arguments = _arguments()
    if arguments.show is not None:
        return show(arguments.show, arguments.suite or list(SUITES))
    failures = []
    for name in arguments.suite or SUITES:
        print(f"\n{name}" + (" (quick)" if arguments.quick else ""), flush=True)
        rows, wrong = run(name, quick=arguments.quick)
        failures += wrong
        report.write(rows, (arguments.out or ROOT / "build" / "bench") / f"{name}.json")
        if arguments.keep and rows:
            kept_file = RESULTS / machine_name() / f"{name}.json"
            report.write(list({**report.read(kept_file), **{report.key(row): row for row in rows}}.values()), kept_file)
        for row in report.missed(rows):
            print(f"target missed: {row['case']}, B = {row['B']}: {row['peer'] or 'itself'}")
    print(*failures, sep="\n", file=sys.stderr)
    return 1 if failures else 0


def show(machine: str, names: list[str]) -> int:
    """Print the results that are kept of a machine; return 1 if there are none."""
    kept = {name: list(report.read(RESULTS / machine / f"{name}.json").values()) for name in names}
    for name, rows in kept.items():
        if rows:
            print(f"\n{name}\n{report.table(rows)}")
    if any(kept.values()):
        return 0
    machines = ", ".join(sorted(path.name for path in RESULTS.iterdir() if path.is_dir()))
    print(f"--show: expected a machine that results are kept of ({machines}), got {machine}", file=sys.stderr)
    return 1


def run(name: str, *, quick: bool) -> tuple[list[Row], list[str]]:
    """Measure a suite and print its rows; return the rows and errors."""
    rows: list[Row] = []
    wrong: list[str] = []
    try:
        for case in cases_of(name, quick):
            measured, errors = measure(name, case, quick=quick)
            lines = [report.table(measured, heads=not rows)] if measured else []
            rows += measured
            wrong += errors
            print(*lines, *errors, sep="\n", flush=True)
    except CannotRun as reason:
        print(f"{name}: unmeasured: {reason}")
    return rows, wrong


def measure(suite: str, case: Case, *, quick: bool) -> tuple[list[Row], list[str]]:
    """Rows of one case, and errors; contenders with a wrong result are not timed."""
    wrong = []
    for contender in case.contenders:
        try:
            contender.check(contender.run())
        except AssertionError as error:
            wrong.append(f"WRONG {suite}, {case.name}, B = {case.batch}: {contender.name}: {error}")
    if wrong:
        return [], wrong
    rounds, sample_s = (15, 0.004) if quick else (41, 0.01)
    wait = torch.cuda.synchronize if case.device == "cuda" else lambda: None
    samplers = [contender.clock or repeated(contender.run, sample_s, wait) for contender in case.contenders]
    return report.rows_of(suite, case, interleaved(samplers, case.rounds or rounds)), []


def _arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="python -m benchmarks", description=__doc__.splitlines()[0])
    parser.add_argument("--quick", action="store_true", help="fewer cases and shorter samples: under two minutes")
    parser.add_argument("--keep", action="store_true", help="keep the results in benchmarks/results")
    shown = "print the results kept of a kind of machine (default: this one) and measure nothing"
    parser.add_argument("--show", nargs="?", const=machine_name(), metavar="MACHINE", help=shown)
    parser.add_argument("--out", type=Path, metavar="DIR", help="for the results (default: build/bench)")
    parser.add_argument("--suite", action="append", choices=list(SUITES), help="only this one; may be repeated")
    return parser.parse_args()


if __name__ == "__main__":
    sys.exit(main())
