"""The options of `python -m soak`, and of `--random`, which are others."""

from __future__ import annotations

import argparse
import os
import shlex
from pathlib import Path

import yaml

from traj_integrator_ros.tools.command_line import positive

from .judge import Limits


def setting(text: str) -> tuple[str, object]:
    """An argument NAME:=VALUE, the value as in YAML."""
    name, given, value = text.partition(":=")
    if not given:
        raise argparse.ArgumentTypeError(f"expected NAME:=VALUE, got {text!r}")
    return name, yaml.safe_load(value)


def process_options() -> argparse.Namespace:
    """Options of a soak with processes."""
    parser = argparse.ArgumentParser(
        prog="python -m soak",
        description="the node under steady load from separate processes, over DDS; 10 minutes by default.",
    )
    parser.add_argument("--out", type=Path, default=Path("build/soak"), metavar="DIR", help="default: %(default)s")
    limits = Limits()
    for name, default, unit, what in (
        ("minutes", 10.0, "M", ""),
        ("warmup", 10.0, "S", "time before, in which memory and latency do not count "),
        ("state-rate", 1000.0, "HZ", "joint states "),
        ("sequence-rate", 100.0, "HZ", "action sequences "),
        ("gradient-rate", 50.0, "HZ", "gradient calls "),
        ("p99-ratio", limits.p99_ratio, "X", "largest p99 of the last minute to that of the first "),
        ("rss-growth", limits.rss_growth, "MIB",
         "largest growth of the node's memory from the first minute to the last "),
        ("least-rate", limits.least_rate, "X", "share of the rates that must be reached, else it was no soak "),
    ):  # fmt: skip
        parser.add_argument(
            f"--{name}", type=positive, default=default, metavar=unit, help=f"{what}(default: %(default)s)"
        )
    parser.add_argument(
        "--random", action="store_true",
        help="instead of a node: random streams on a simulated clock, every cycle judged; has options of its own "
        "(--random --help)",
    )  # fmt: skip
    _add_setting(parser)
    return parser.parse_args()


def stream_options(arguments: list[str]) -> tuple[argparse.Namespace, str]:
    """Options of random streams, and the command that repeats a seed: all of them but the choice of seeds."""
    seeds = argparse.ArgumentParser(add_help=False)
    add = seeds.add_argument
    add("--seeds", type=int, default=1000, metavar="N", help="how many (default: %(default)s)")
    add("--first", type=int, default=0, metavar="K", help="the first of them (default: %(default)s)")
    add("--seed", type=int, metavar="K", help="this one only, with all that happens in it")
    add("--store", action="store_true", help="make the figures of these seeds the baseline of later runs")
    add("--workers", type=int, default=os.cpu_count() or 1, metavar="N", help="processes (default: all cores)")
    parser = argparse.ArgumentParser(
        prog="python -m soak --random", parents=[seeds],
        description="random streams by the thousand, judged in every cycle; one line for each failure, and how "
        "smooth they are, as parts of a baseline.",
    )  # fmt: skip
    add = parser.add_argument
    add("--random", action="store_true", help="random streams, as here")
    add("--without-state", action="store_true", help="the controller publishes no state; then on an arm without "
        "droop, noise, quantization and restarts")  # fmt: skip
    _add_setting(parser)
    options = parser.parse_args(arguments)
    return options, shlex.join(["python", "-m", "soak", *seeds.parse_known_args(arguments)[1]])


def _add_setting(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "--set", type=setting, action="append", default=[], metavar="NAME:=VALUE",
        help="a parameter of the node; may be repeated",
    )  # fmt: skip
