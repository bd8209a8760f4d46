"""`ros2 run traj_integrator_ros integrate`: actions or joint states of a file to trajectories, without a node."""

from __future__ import annotations

import argparse
import sys
import time
from collections.abc import Iterator, Mapping
from collections.abc import Sequence as Arguments
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np

from ..motions.extras import require
from ..motions.files import read_samples
from ..motions.samples import QUANTITIES, Samples
from ..requests.rejection import DT_MAX_S, DT_MIN_S
from .command_line import ToolParser, UserError, count, names, natural, note, numbers, positive, run_tool
from .drawing import PICTURES, draw_motion
from .integration_input import (
    BSPLINE,
    CONTROL_SPACES,
    ENDS,
    FORM,
    STATE,
    Sequence,
    completed,
    number_of,
    read_sequences,
    told_assumed,
)
from .integration_output import BAGS, from_start, write_archive, write_bag, write_table
from .progress import Progress
from .robot import Robot, add_robot_options, load_robot

if TYPE_CHECKING:  # brings torch with it
    from .integration import Integrated

NAME = "integrate"
SHOWN_VIOLATIONS = 20
EXAMPLES = (
    (f"{NAME} recording.db3 --out trajectory.csv --plot trajectory.png", "recorded positions, as position control"),
    (f"{NAME} motion.csv --control-space acceleration --out out.npz", "its accelerations, integrated from its start"),
    (f"{NAME} sequences_bag --out integrated_bag", "every ActionSequence of a bag, to a bag"),
    (f"{NAME} actions.csv --dt 0.05 --start-position 0.1,0.2,0.3 --out out.csv", "a table of action_<joint> columns"),
    (f"{NAME} motion.csv --fit 16 --out spline.npz --plot spline.png", "as a B-spline with 16 control points"),
    (f"{NAME} actions.npy --batch-file --start-position starts.npy --out results", "a batch larger than memory"),
)
OF_ROWS = {"finite_difference": "backward", "device": "cpu", "dtype": "float64"}
"""Options that have an effect with --rows only, and their defaults."""
OF_BATCH_FILES = ("fields", "part")
NOT_OF_BATCH_FILES = ("plot", "params", "urdf", "topic", "sequence", "fit")


def main(arguments: Arguments[str] | None = None) -> int:
    """Integrate a file; returns the exit code."""
    parser = ToolParser(
        NAME,
        "Integrates actions to trajectories with position, velocity, acceleration and jerk, as the node sends them\n"
        "to a controller, but without one: every action is executed, and a brake follows. In: a rosbag2 recording\n"
        "(ActionSequence messages, else joint states), a table (action_<joint>, or time, position_<joint> ...), NPZ\n"
        "(actions, or time, position ...), YAML of ros2 topic echo.",
        EXAMPLES,
    )
    parser.option("file", "actions or a motion", "FILE", Path)
    parser.option("--out", "trajectory: .csv, .npz, .mcap or .db3, or a folder (no suffix) for a bag", "FILE", Path)
    parser.option("--plot", "figure of one trajectory, with what was recorded", "FILE", Path)
    add_robot_options(parser, "parameter file of the node: limits")
    parser.option("--topic", "topic of a bag (default: the only one of its type)")
    parser.add_argument(
        "--control-space", choices=CONTROL_SPACES, help="what actions are, if not in the file, or which of a motion's"
        " quantities are taken as actions (default: position)",
    )  # fmt: skip
    parser.option("--dt", "time step (default: the file's, else 0.02)", "S", _step)
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
    parser.option("--fit", "take a motion as a B-spline with N control points", "N", natural, group=splines)
    splines.add_argument("--degree", type=int, choices=(3, 4, 5), help="where the file does not say (default: 3)")
    parser.option("--steps", "rows in a segment, if not in the file (default: 4)", "N", natural, group=splines)
    splines.add_argument("--layout", choices=("tight", "curobo"), help="if not in the file (default: tight)")
    batches = parser.add_argument_group("batches larger than memory")
    of_file = (
        "FILE is an .npy of actions [B, Ha, D], --out a folder for an .npy [B, H, D] of each quantity, the rows of "
        "--rows in FILE's dtype; --start-* and --goal-* may be .npy, too, [1, D] or [B, D]"
    )
    parser.flag("--batch-file", of_file, group=batches)
    parser.option("--fields", f"the quantities to write (default: {','.join(QUANTITIES)})", "A,B", names, group=batches)
    parser.option("--part", "trajectories at a time (default: 32 MiB of results)", "N", natural, group=batches)
    rows = parser.add_argument_group("with --rows and --batch-file")
    rows.add_argument("--finite-difference", choices=("backward", "central"), help="default: backward")
    parser.option("--device", "cpu, cuda, cuda:N or auto (default: cpu)", group=rows)
    rows.add_argument("--dtype", choices=("float32", "float64"), help="default: float64")
    parser.option("--sequence", "take this message of a bag only", "N", count)
    parser.option("--row", "trajectory of a batch for CSV and figure (default: 0)", kind=count, default=0)
    parser.flag("--quiet", "show no progress")
    options = parser.parse(arguments)
    _check(parser, options)
    return run_tool(NAME, lambda: _run(options))


def _row(text: str) -> list[float] | Path:
    """An argument of numbers with commas between them, or an .npy of rows."""
    return Path(text) if text.endswith(".npy") else numbers(text)


def _step(text: str) -> float:
    """An argument that is a time step as the node takes them."""
    value = positive(text)
    if not DT_MIN_S <= value <= DT_MAX_S:
        raise argparse.ArgumentTypeError(f"expected {DT_MIN_S:g} to {DT_MAX_S:g} s, as in the node, got {text!r}")
    return value


def _check(parser: ToolParser, options: argparse.Namespace) -> None:
    """Check what options need and exclude of each other, and fill in defaults that depend on others."""
    out, is_fit, in_parts = options.out, options.fit is not None, options.batch_file
    paths = [name for name in ENDS if isinstance(getattr(options, name), Path)]
    refused = (
        (is_fit, ("dt",), "without --fit: the motion's time is divided among the segments"),
        (is_fit, ENDS[3:], "without --fit: the spline ends as the motion does"),
        (in_parts, NOT_OF_BATCH_FILES, "without --batch-file"),
        (in_parts, ("dtype",), "without --batch-file, which keeps that of FILE"),
        (not in_parts, OF_BATCH_FILES, "with --batch-file only"),
        (not in_parts, paths, "numbers, a file with --batch-file only"),
        (not in_parts and not options.rows, OF_ROWS, "with --rows only: nothing else goes through the kernels"),
    )
    for applies, names_, expected in refused:
        for name in names_ if applies else ():
            if getattr(options, name) is not None:
                parser.error(f"--{name.replace('_', '-')}: expected {expected}")
    unknown = [name for name in options.fields or () if name not in QUANTITIES]
    if in_parts and (out is None or out.suffix):
        parser.error(f"--out: expected a folder without a suffix with --batch-file, got {out}")
    if unknown:
        parser.error(f"--fields: expected some of {','.join(QUANTITIES)}, got {unknown[0]}")
    if out is None and options.plot is None:
        parser.error("--out, --plot: expected at least one of them, got none")
    if out is not None and out.suffix not in (".csv", ".npz", *BAGS, ""):
        parser.error(f"--out: expected .csv, .npz, .db3, .mcap or a folder without a suffix for a bag, got {out}")
    if options.plot is not None and options.plot.suffix not in PICTURES:
        parser.error(f"--plot: expected a file ending in {', '.join(PICTURES)}, got {options.plot}")
    options.fields = [name for name in QUANTITIES if options.fields is None or name in options.fields]
    for name, default in OF_ROWS.items():
        setattr(options, name, getattr(options, name) or default)


def _run(options: argparse.Namespace) -> int:
    """Integrate what the options name: a batch in parts, everything else in memory."""
    require("ruckig", "joining motions")
    given = {name: value for name in (*ENDS, *FORM) if (value := getattr(options, name)) is not None}
    if options.control_space is not None:
        given["control_space"] = number_of(options.control_space)
    if options.dt is not None:
        given["dt"] = np.array([options.dt])
    if options.batch_file:
        from .integration_batch import integrate_file

        integrate_file(options, given)
        return 0
    for told in _integrate(options, given):
        print(told)
    return 0


def _integrate(options: argparse.Namespace, given: Mapping[str, object]) -> Iterator[str]:
    """Read, select, integrate and write; then what was done, in lines."""
    if options.plot is not None:
        require("matplotlib", "--plot")
    if options.out is not None and options.out.suffix in ("", *BAGS):
        require("rosbags", "--out: writing bags")
    robot = load_robot(options.params, options.urdf)  # before the work, because it may be wrong
    with Progress(options.quiet) as progress:
        progress.stage("Reading")
        sequences = _read(options, given, robot)
        assumed = told_assumed(sequences)
        if options.sequence is not None:
            if options.sequence >= len(sequences):
                raise UserError(f"--sequence: expected less than {len(sequences)}, got {options.sequence}")
            sequences = [sequences[options.sequence]]
        robot = robot.for_motion([*dict.fromkeys(name for one in sequences for name in one.joint_names)])
        progress.stage("Integrating", float(len(sequences)), "sequences" if len(sequences) > 1 else "sequence")
        from .integration import integrated  # brings torch with it, which a wrong file does not need

        results, begin = [], time.monotonic()
        for number, sequence in enumerate(sequences):
            try:
                results.append(integrated(sequence, robot, options))
            except ValueError as error:
                which = f", sequence {number}" if len(sequences) > 1 else ""
                raise UserError(f"{options.file}{which}: {error}") from None
            progress.update(float(number + 1))
        seconds = time.monotonic() - begin
        progress.stage("Writing")
        _write(results, robot, options)
    yield from _told(results, robot, options, seconds, assumed)


def _read(options: argparse.Namespace, given: Mapping[str, object], robot: Robot) -> list[Sequence]:
    """The sequences of the file, completed by options; or the control points of its motion."""
    if options.fit is None:
        space = options.control_space or "position"
        sequences = read_sequences(options.file, space, options.topic, note, robot.unwrapped)
        return [completed(sequence, given) for sequence in sequences]
    from .integration import fit

    form = {name: given[name] for name in FORM if name in given}
    return [fit(robot.unwrapped(read_samples(options.file, options.topic, note)), options.fit, form)]


def _write(results: list[Integrated], robot: Robot, options: argparse.Namespace) -> None:
    first, out = results[0], options.out
    if options.row >= len(first.trajectories):
        raise UserError(f"--row: expected less than {len(first.trajectories)} (the batch), got {options.row}")
    chosen = from_start(first.trajectories[options.row])
    if out is not None and out.suffix == ".csv":
        write_table(out, chosen)
    elif out is not None and out.suffix == ".npz":
        write_archive(out, [one.trajectories for one in results], first.sequence.archived)
    elif out is not None:
        with_accelerations = not first.motions or first.motions[0].with_accelerations
        write_bag(out, [from_start(row) for one in results for row in one.trajectories], with_accelerations)
    if options.plot is not None:
        if first.motions and first.sequence.control_space == BSPLINE:  # its points would not show it
            from .integration import between_points

            chosen = between_points(chosen, first.motions[options.row])
        title = _title(first.sequence, options)
        draw_motion(options.plot, chosen, robot, reference=first.sequence.recorded, title=title)


def _title(sequence: Sequence, options: argparse.Namespace) -> str:
    """What the figure shows: of which file, and what was done with it."""
    fields, space = sequence.fields, sequence.control_space
    if space == BSPLINE:
        what = f"{fields['horizon']} control points of degree {fields.get('degree', 3)}"
        what = f"fitted by {what}" if sequence.is_fitted else what
    else:
        actions = space if sequence.recorded is not None else f"{fields['horizon']} {space} actions"
        what = f"integrated from its {actions}"
    row = f", trajectory {options.row} of {fields['batch']}" if fields["batch"] > 1 else ""
    return f"{options.file.name}{row}: {what}"


def _told(
    results: list[Integrated], robot: Robot, options: argparse.Namespace, seconds: float, assumed: list[str]
) -> Iterator[str]:
    """What was read, assumed, derived, written, and what exceeds a limit, in lines."""
    first, shown = results[0].sequence, results[0].trajectories[0]
    trajectories, dof = sum(len(one.trajectories) for one in results), shown.dof
    of = f" of {len(results)} sequences" if len(results) > 1 else ""
    yield (
        f"{trajectories} {'trajectory' if trajectories == 1 else 'trajectories'}{of}, {len(shown.time)} points, "
        f"{dof} {'joint' if dof == 1 else 'joints'}, integrated in {1e3 * seconds:.1f} ms"
    )
    used = ("acceleration", "velocity") if options.rows else ("velocity",)
    if derived := [name for name in used if first.recorded is not None and getattr(first.recorded, name) is None]:
        yield f"note: {', '.join(f'start {name} by differences' for name in derived)}"
    if not options.rows and options.end == "stop":
        yield "note: at rest in the end, after a brake where the plan does not stop (--end as_planned: without)"
    if options.rows and options.finite_difference == "backward" and first.has_uneven_positions:
        yield "note: uneven steps: divided differences, as on ~/position_trajectory"
    yield from (f"note: {told}" for told in assumed)
    if first.is_fitted:
        from .integration import told_residual

        yield f"fit: {told_residual(first, robot.units)}"
    elif first.recorded is not None:
        yield f"RMS difference from the recording: {_differences(from_start(shown), first.recorded, robot)}"
    if options.out is not None and options.out.suffix == ".csv" and trajectories > 1:
        yield f"note: {options.out} has trajectory {options.row} of the first sequence; NPZ and bags take all"
    yield from (f"written: {path}" for path in (options.out, options.plot) if path is not None)
    exceeded = [line for one in results for line in one.exceeded]
    yield from (f"limit exceeded: {line}" for line in exceeded[:SHOWN_VIOLATIONS])
    if len(exceeded) > SHOWN_VIOLATIONS:
        yield f"limit exceeded: ... and {len(exceeded) - SHOWN_VIOLATIONS} more"


def _differences(integrated: Samples, recorded: Samples, robot: Robot) -> str:
    found = []
    for order, name in enumerate(QUANTITIES):
        expected, got = getattr(recorded, name), getattr(integrated, name)
        if expected is not None:
            rows = min(len(expected), len(got))
            found.append(f"{name} {robot.units.rms(got[:rows] - expected[:rows], order, recorded.joint_names)}")
    return ", ".join(found)


if __name__ == "__main__":
    sys.exit(main())
