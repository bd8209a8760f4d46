"""The options of the tool `integrate`."""

from __future__ import annotations

import argparse
from collections.abc import Sequence
from pathlib import Path

from ..handling.time_grid import DT_MAX_S, DT_MIN_S
from ..motions.samples import QUANTITIES
from .command_line import ToolParser, count, names, numbers, positive
from .integration_input import BSPLINE, CONTROL_SPACES, STATE
from .robot import add_robot_options

NAME = "integrate"
DEFAULT_DT_S = 0.02
OF_ROWS = {"finite_difference": "backward", "device": "cpu", "dtype": "float64"}
"""Options that have an effect with --rows only, and their defaults."""
EXAMPLES = (
    (f"{NAME} recording.db3 --out trajectory.csv --plot trajectory.png", "recorded positions, as position control"),
    (f"{NAME} motion.csv --control-space acceleration --out out.npz", "its accelerations, integrated from its start"),
    (f"{NAME} sequences_bag --out integrated_bag", "every ActionSequence of a bag, to a bag"),
    (f"{NAME} actions.csv --dt 0.05 --start-position 0.1,0.2,0.3 --out out.csv", "a table of action_<joint> columns"),
    (f"{NAME} motion.csv --fit 16 --out spline.npz --plot spline.png", "as a B-spline with 16 control points"),
    (f"{NAME} actions.npy --batch-file --start-position starts.npy --out results", "a batch larger than memory"),
)
OF_MOTIONS = ("plot", "params", "urdf", "topic", "sequence", "fit")
"""Options that have no meaning with --batch-file."""


def parse(arguments: Sequence[str] | None) -> argparse.Namespace:
    """Parse the options; exits with one line and exit code 2 if they are wrong."""
    parser = ToolParser(
        NAME,
        "Integrates actions to trajectories with position, velocity, acceleration and jerk, as the node sends them\n"
        "to a controller, but without one: every action is executed, and a brake follows. In: a rosbag2 recording\n"
        "(ActionSequence messages, else joint states), CSV (action_<joint>, or time, position_<joint> ...), NPZ\n"
        "(actions, or time, position ...), YAML of a planned trajectory.",
        EXAMPLES,
    )
    parser.option("file", "actions or a motion", "FILE", Path)
    parser.option("--out", "trajectory: .csv, .npz, or a folder (no suffix) for a bag", "FILE", Path)
    parser.option("--plot", "figure of one trajectory, with what was recorded", "FILE", Path)
    add_robot_options(parser, "parameter file of the node: limits")
    parser.option("--topic", "topic of a bag (default: the only one of its type)")
    parser.add_argument(
        "--control-space", choices=CONTROL_SPACES, help="what actions are, if not in the file, or which of a motion's"
        " quantities are taken as actions (default: position)",
    )  # fmt: skip
    parser.option("--dt", "time step (default: that of the file, else 0.02)", "S", _step)
    for name in STATE:
        parser.option(f"--start-{name}", "start of actions that bring none (default: 0)", "A,B", _row)
        parser.option(f"--goal-{name}", "goal of control points or positions that bring none", "A,B", _row)
    parser.add_argument("--acceleration-integrator", choices=("zoh", "semi_implicit_euler"), default="zoh")
    parser.add_argument(
        "--end", choices=("stop", "as_planned"), default="stop", help="brake to rest after the last action, or not"
    )
    of_batch = (
        "the rows of ~/trajectory_batch and ~/integrate instead: no brake, and the last action leads to none of them"
    )
    parser.flag("--rows", of_batch)
    splines = parser.add_argument_group("with --control-space bspline")
    parser.option("--fit", "take a motion as a B-spline with N control points", "N", count, group=splines)
    splines.add_argument("--degree", type=int, choices=(3, 4, 5), help="where the file does not say (default: 3)")
    parser.option("--steps", "rows in a segment, if not in the file (default: 4)", "N", count, group=splines)
    splines.add_argument("--layout", choices=("tight", "curobo"), help="if not in the file (default: tight)")
    batches = parser.add_argument_group("batches larger than memory")
    of_file = (
        "FILE is an .npy of actions [B, Ha, D], --out a folder for an .npy [B, H, D] of each quantity, the rows of "
        "--rows in FILE's dtype; --start-* and --goal-* may be .npy, too, [1, D] or [B, D]"
    )
    parser.flag("--batch-file", of_file, group=batches)
    parser.option("--fields", f"the quantities to write (default: {','.join(QUANTITIES)})", "A,B", names, group=batches)
    parser.option("--part", "trajectories at a time (default: 32 MiB of results)", "N", count, group=batches)
    rows = parser.add_argument_group("with --rows and --batch-file")
    rows.add_argument("--finite-difference", choices=("backward", "central"), help="default: backward")
    parser.option("--device", "cpu, cuda, cuda:N or auto (default: cpu)", group=rows)
    rows.add_argument("--dtype", choices=("float32", "float64"), help="default: float64")
    parser.option("--sequence", "take this message of a bag only", "N", count)
    parser.option("--row", "trajectory of a batch for CSV and figure (default: 0)", kind=count, default=0)
    parser.flag("--quiet", "show no progress")
    options = parser.parse(arguments)
    if options.fit is not None:
        if options.dt is not None:
            parser.error("--dt: expected without --fit: the motion's time is divided among the segments")
        if any(getattr(options, f"goal_{name}") is not None for name in STATE):
            parser.error("--fit: expected without a goal: the spline ends as the motion does")
        options.control_space = BSPLINE
    options.assumed_space = options.control_space is None
    options.control_space = options.control_space or "position"
    _check_batch_file(parser, options)
    for name in ("fit", "steps", "part"):
        if getattr(options, name) == 0:
            parser.error(f"--{name}: expected at least 1, got 0")
    for name, default in OF_ROWS.items():
        if getattr(options, name) is None:
            setattr(options, name, default)
        elif not options.rows and not options.batch_file:
            parser.error(
                f"--{name.replace('_', '-')}: expected with --rows only: nothing else goes through the kernels"
            )
    return options


def assumed(options: argparse.Namespace, *, space: bool, dt: bool, start: bool) -> list[str]:
    """A line about what was assumed of what the file does not say, control space, steps or start; or none."""
    found = []
    if space and options.assumed_space:
        found.append(f"actions are {options.control_space}s (--control-space)")
    if dt and options.dt is None:
        found.append(f"steps are {DEFAULT_DT_S:g} s (--dt)")
    if start:
        found.append("the start is at position 0 (--start-position)")
    return [f"assumed, since neither the file nor an option says otherwise: {', '.join(found)}"] if found else []


def _check_batch_file(parser: ToolParser, options: argparse.Namespace) -> None:
    """Check the options that --batch-file excludes, and those that need it."""
    if not options.batch_file:
        for name in ("fields", "part"):
            if getattr(options, name) is not None:
                parser.error(f"--{name}: expected with --batch-file only")
        for name in (f"{end}_{name}" for end in ("start", "goal") for name in STATE):
            if isinstance(getattr(options, name), Path):
                parser.error(f"--{name.replace('_', '-')}: expected numbers, a file with --batch-file only")
        return
    for name in OF_MOTIONS:
        if getattr(options, name) is not None:
            parser.error(f"--{name}: expected without --batch-file")
    if options.dtype is not None:
        parser.error("--dtype: expected without --batch-file, which keeps that of FILE")
    if options.out is None or options.out.suffix:
        parser.error(f"--out: expected a folder without a suffix with --batch-file, got {options.out}")
    for name in options.fields or ():
        if name not in QUANTITIES:
            parser.error(f"--fields: expected some of {','.join(QUANTITIES)}, got {name}")
    options.fields = [name for name in QUANTITIES if options.fields is None or name in options.fields]
    options.dt = options.dt or DEFAULT_DT_S


def _row(text: str) -> list[float] | Path:
    """An argument of numbers with commas between them, or an .npy of rows."""
    return Path(text) if text.endswith(".npy") else numbers(text)


def _step(text: str) -> float:
    """An argument that is a time step as the node takes them."""
    value = positive(text)
    if not DT_MIN_S <= value <= DT_MAX_S:
        raise argparse.ArgumentTypeError(f"expected {DT_MIN_S:g} to {DT_MAX_S:g} s, as in the node, got {text!r}")
    return value
