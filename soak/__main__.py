"""`python -m soak`: the node under steady load over DDS, or, with --random, random streams without a node."""

from __future__ import annotations

import argparse
import signal
import sys
from pathlib import Path

import yaml

from kit.local_dds import config_file, stay_local
from kit.node_process import write_parameters
from traj_integrator_ros.limits.parameter_files import dotted
from traj_integrator_ros.tools.command_line import positive
from traj_integrator_ros.tools.progress import Progress

from .judge import Limits, violations
from .records import Record
from .report import as_json
from .settings import add_setting

EXIT_FAILED = 1
EXIT_INTERRUPTED = 130
REPORT = "soak.json"
RATES_HZ = {"robot": 1000.0, "planner": 100.0, "optimizer": 50.0}
"""Rates, Hz, of joint states, action sequences and gradient calls."""


def main() -> int:
    """Run a soak; return 0 if it passes, 1 if not (standard error says why), 130 on a signal."""
    if "--random" in sys.argv[1:]:
        from .streams.command import main as random_streams  # imports torch

        return random_streams(sys.argv[1:])
    options = _options()
    out: Path = options.out
    out.mkdir(parents=True, exist_ok=True)
    (out / REPORT).unlink(missing_ok=True)
    stay_local()
    # The environment must be complete before the middleware is loaded.
    from .session import run_soak

    params_file = write_parameters(out / "node_params.yaml", _parameters(options.set))
    rates = {name: rate * options.load for name, rate in RATES_HZ.items()}
    circumstances = {name: getattr(options, name) for name in ("load", "beside")}
    record = Record(options.warmup, 60 * options.minutes, rates, **circumstances)
    # Both signals raise an exception, so that the node is stopped; a shell ignores SIGINT for background processes.
    for number in (signal.SIGINT, signal.SIGTERM):
        signal.signal(number, signal.default_int_handler)
    try:
        run_soak(record, params_file, out, Progress())
    except KeyboardInterrupt:
        print("\nsoak: interrupted", file=sys.stderr)
        return EXIT_INTERRUPTED
    found = violations(record, Limits(**{name: getattr(options, name) for name in Limits._fields}))
    report = as_json(record, found)
    (out / REPORT).write_text(report, encoding="utf-8")
    print(f"\n{report}written in {out}: {REPORT}, logs", flush=True)
    for violation in found:
        print(f"soak: FAILED: {violation}", file=sys.stderr)
    return EXIT_FAILED if found else 0


def _options() -> argparse.Namespace:
    parser = argparse.ArgumentParser(
        prog="python -m soak",
        description="the node under steady load over DDS, from other processes; 10 minutes by default.",
    )
    parser.add_argument("--out", type=Path, default=Path("build/soak"), metavar="DIR", help="default: %(default)s")
    for name, default, unit, what in (
        ("minutes", 10.0, "M", ""),
        ("warmup", 120.0, "S", "time before, in which memory and latency do not count "),
        ("load", 1.0, "X", "multiple of the usual rates; above 1, refusals count, and not rates and latencies "),
        *((name, value, "X", "limit of the judge ") for name, value in Limits()._asdict().items()),
    ):
        option, description = f"--{name.replace('_', '-')}", f"{what}(default: %(default)s)"
        parser.add_argument(option, type=positive, default=default, metavar=unit, help=description)
    beside = "another process keeps the node's core busy"
    parser.add_argument("--beside", action="store_true", help=beside)
    random = "instead of a node: random streams on a simulated clock, every cycle judged (--random --help)"
    parser.add_argument("--random", action="store_true", help=random)
    add_setting(parser)
    return parser.parse_args()


def _parameters(settings: list[tuple[str, object]]) -> dict[str, object]:
    """Return the node's parameters: those of the Franka robot, counts four times a second, and the user's settings."""
    franka = yaml.safe_load(config_file("franka.yaml").read_text(encoding="utf-8"))["/**"]["ros__parameters"]
    own = {"start_from": "previous", "diagnostics.period": 0.25, "warmup": ["16x32"], "device": "auto"}
    # The robot swings by itself, whatever is published for it.
    own |= {"supervision.deviation": 0.0, "publish.start_moving": True}
    return dotted(franka) | own | dict(settings)


if __name__ == "__main__":
    sys.exit(main())
