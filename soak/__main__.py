"""`python -m soak`: the node under steady load from separate processes, over DDS; 10 minutes by default."""

from __future__ import annotations

import argparse
import signal
import sys
from pathlib import Path

import yaml

from traj_integrator_ros.tools.command_line import positive
from traj_integrator_ros.tools.progress import make_progress
from traj_integrator_ros.traffic.local_dds import config_file, stay_local

from .judge import LATE_SHARE, LEAST_RATE, P99_RATIO, RSS_GROWTH_MIB, Limits, violations
from .picture import draw
from .records import Record
from .report import as_json, table, write
from .settings import setting

EXIT_FAILED, EXIT_INTERRUPTED = 1, 130
REPORT, PICTURE = "soak.json", "soak.png"


def main() -> int:
    """Run a soak; returns 0 if it passes, 1 if not (standard error says why), 130 on a signal."""
    if "--random" in sys.argv[1:]:
        from .streams.command import main as random_streams  # brings torch with it

        return random_streams(sys.argv[1:])
    options = _options()
    out: Path = options.out
    out.mkdir(parents=True, exist_ok=True)
    for name in (REPORT, PICTURE):
        (out / name).unlink(missing_ok=True)
    stay_local()
    # The environment must be complete before the middleware is loaded.
    from .session import run_soak

    params_file = out / "node_params.yaml"
    params_file.write_text(_parameters(options.set, options.chunks), encoding="utf-8")
    rates = {"robot": options.state_rate, "planner": options.sequence_rate, "optimizer": options.gradient_rate}
    if options.chunks:  # have a rate of their own
        del rates["planner"]
    record = Record(warmup_s=options.warmup, duration_s=60 * options.minutes, rates_hz=rates, chunks=options.chunks)
    # Both unwind, so that the node is stopped; a shell ignores SIGINT for what it runs in the background.
    for number in (signal.SIGINT, signal.SIGTERM):
        signal.signal(number, signal.default_int_handler)
    try:
        with make_progress() as progress:
            run_soak(record, params_file, out, progress)
    except KeyboardInterrupt:
        print("\nsoak: interrupted", file=sys.stderr)
        return EXIT_INTERRUPTED
    found = violations(record, Limits(options.p99_ratio, options.rss_growth, options.least_rate, options.late_share))
    if record.samples:
        draw(record, out / PICTURE)
    write(as_json(record, found), out / REPORT)
    print(f"\n{table(record)}\n  written in {out}: {REPORT}, {PICTURE}, logs", flush=True)
    for violation in found:
        print(f"soak: FAILED: {violation}", file=sys.stderr)
    return EXIT_FAILED if found else 0


def _options() -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="python -m soak", description=__doc__.partition(": ")[2])
    parser.add_argument("--minutes", type=positive, default=10.0, metavar="M", help="default: %(default)s")
    parser.add_argument(
        "--warmup", type=positive, default=10.0, metavar="S",
        help="time before, in which memory and latency do not count (default: %(default)s)",
    )  # fmt: skip
    parser.add_argument("--out", type=Path, default=Path("build/soak"), metavar="DIR", help="default: %(default)s")
    for name, default, what in (
        ("state", 1000.0, "joint states"),
        ("sequence", 100.0, "action sequences"),
        ("gradient", 50.0, "gradient calls"),
    ):
        parser.add_argument(
            f"--{name}-rate", type=positive, default=default, metavar="HZ", help=f"{what} (default: %(default)s)"
        )
    parser.add_argument(
        "--chunks", action="store_true",
        help="instead of batches from a planner: a policy streams chunks at 10 to 25 Hz, with jitter and stops, and a "
        "robot executes them; nothing commanded at 1 kHz may leave its limits",
    )  # fmt: skip
    parser.add_argument(
        "--random", action="store_true",
        help="instead of a node: random streams on a simulated clock, every cycle judged; has options of its own "
        "(--random --help)",
    )  # fmt: skip
    parser.add_argument(
        "--set", type=setting, action="append", default=[], metavar="NAME:=VALUE",
        help="a parameter of the node; may be repeated",
    )  # fmt: skip
    parser.add_argument(
        "--p99-ratio", type=positive, default=P99_RATIO, metavar="X",
        help="largest p99 of the last minute to that of the first (default: %(default)s)",
    )  # fmt: skip
    parser.add_argument(
        "--rss-growth", type=positive, default=RSS_GROWTH_MIB, metavar="MIB",
        help="largest growth of the node's memory from the first minute to the last (default: %(default)s)",
    )  # fmt: skip
    parser.add_argument(
        "--least-rate", type=positive, default=LEAST_RATE, metavar="X",
        help="share of the rates that must be reached, else it was no soak (default: %(default)s)",
    )  # fmt: skip
    parser.add_argument(
        "--late-share", type=positive, default=LATE_SHARE, metavar="X",
        help="with --chunks: largest share that reaches the robot after its own start (default: %(default)s)",
    )  # fmt: skip
    return parser.parse_args()


def _parameters(settings: list[tuple[str, object]], chunks: bool) -> str:
    """The node's parameter file: that of the Franka robot, with counts four times a second, and the user's settings."""
    content = yaml.safe_load(config_file("franka.yaml").read_text(encoding="utf-8"))
    (section,) = content.values()
    values = {"start_from": "previous" if chunks else "measured", "diagnostics.period": 0.25, "warmup": ["16x32"]}
    if not chunks:  # the robot swings by itself, whatever is published for it
        values["supervision.deviation"] = 0.0
    for name, value in (values | {"device": "auto"} | dict(settings)).items():
        *groups, last = name.split(".")
        place = section["ros__parameters"]
        for group in groups:
            place = place.setdefault(group, {})
        place[last] = value
    return yaml.safe_dump(content)


if __name__ == "__main__":
    sys.exit(main())
