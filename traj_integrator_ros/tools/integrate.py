"""`ros2 run traj_integrator_ros integrate`: actions or joint states of a file to trajectories, without a node."""

from __future__ import annotations

import argparse
import sys
import time
from collections.abc import Iterator, Mapping
from collections.abc import Sequence as Arguments
from typing import TYPE_CHECKING

import numpy as np

from ..motions.extras import require
from ..motions.samples import QUANTITIES, RecordingError, Samples
from ..motions.sequences import BSPLINE, CONTROL_SPACES, ENDS, STATE, read_sequences
from ..motions.writing import BAGS, write_archive, write_bag, write_table
from ..requests.rejection import DT_MAX_S, DT_MIN_S
from .command_line import ToolParser, add_unit_options, file, note, numbers, output, positive, run_tool, units_of
from .drawing import PICTURES, draw_motion
from .robot import Robot, add_robot_options, load_robot

if TYPE_CHECKING:  # imports torch
    from .integration import Integrated

NAME = "integrate"
SHOWN_VIOLATIONS = 20
EXAMPLES = (
    (f"{NAME} recording.db3 --out trajectory.csv --plot trajectory.png", "recorded positions, as position control"),
    (f"{NAME} motion.csv --control-space acceleration --out out.npz", "its accelerations, integrated from its start"),
    (f"{NAME} sequences_bag --out integrated_bag", "every ActionSequence of a bag, to a bag"),
    (f"{NAME} actions.csv --dt 0.05 --start-position 0.1,0.2,0.3 --out out.csv", "a table of action_<joint> columns"),
)


def main(arguments: Arguments[str] | None = None) -> int:
    """Integrate a file; returns the exit code."""
    parser = ToolParser(
        NAME,
        "Integrates actions to trajectories with position, velocity, acceleration and jerk, as the node sends them\n"
        "to a controller, but without one: every action is executed, and a brake follows. In: a rosbag2 recording\n"
        "(ActionSequence messages, else joint states), a table (action_<joint>, or time, position_<joint> ...) or NPZ\n"
        "(actions, or time, position ...).",
        EXAMPLES,
    )
    parser.option("file", "actions or a motion", "FILE", file)
    parser.option("--out", "trajectory: .csv, .npz, .mcap or .db3, or a folder (no suffix) for a bag", "FILE", output)
    parser.option("--plot", "figure of the first trajectory, with what was recorded", "FILE", output)
    add_robot_options(parser, "parameter file of the node: limits, schemes, the form of B-splines")
    parser.option("--topic", "topic of a bag (default: the only one of its type)")
    add_unit_options(parser)
    parser.add_argument(
        "--control-space", choices=CONTROL_SPACES, help="what actions are, if not in the file, or which of a motion's"
        " quantities are taken as actions (default: position)",
    )  # fmt: skip
    parser.option("--dt", "time step (default: the file's, else that of --params or 0.02)", "S", _step)
    for name in STATE:
        parser.option(f"--start-{name}", "start of actions that bring none (default: 0)", "A,B", numbers)
        parser.option(f"--goal-{name}", "goal of control points or positions that bring none", "A,B", numbers)
    options = parser.parse(arguments)
    if options.out is None and options.plot is None:
        parser.error("--out, --plot: expected at least one of them, got none")
    if options.out is not None and options.out.suffix not in (".csv", ".npz", *BAGS, ""):
        parser.error(f"--out: expected .csv, .npz, .db3, .mcap or a folder without a suffix, got {options.out}")
    if options.plot is not None and options.plot.suffix not in PICTURES:
        parser.error(f"--plot: expected a file ending in {', '.join(PICTURES)}, got {options.plot}")
    return run_tool(NAME, lambda: _run(options))


def _step(text: str) -> float:
    """Parse a time step within the node's bounds."""
    value = positive(text)
    if not DT_MIN_S <= value <= DT_MAX_S:
        raise argparse.ArgumentTypeError(f"expected {DT_MIN_S:g} to {DT_MAX_S:g} s, as in the node, got {text!r}")
    return value


def _run(options: argparse.Namespace) -> int:
    """Read, integrate, write, and print what was done."""
    require("ruckig", "joining motions")
    if options.plot is not None:
        require("matplotlib", "--plot")
    if options.out is not None and options.out.suffix in ("", *BAGS):
        require("rosbags", "--out: writing bags")
    robot = load_robot(options.params, options.urdf)  # Before the work, because it may be wrong.
    space, units = options.control_space or "position", units_of(options)
    sequences = read_sequences(options.file, space, options.topic, note, robot.unwrapped, units)
    from .integration import completed, integrated  # imports torch, which a wrong file does not need

    completed_ = [completed(sequence, _given(options), robot.parameters) for sequence in sequences]
    robot = robot.for_motion([*dict.fromkeys(name for one in sequences for name in one.joint_names)])
    results, begin = [], time.monotonic()
    for number, (sequence, _) in enumerate(completed_):
        try:
            results.append(integrated(sequence, robot, str(options.file)))
        except ValueError as error:
            which = f", sequence {number}" if len(sequences) > 1 else ""
            raise RecordingError(f"{options.file}{which}: {error}") from None
    seconds = time.monotonic() - begin
    _write(results, robot, options)
    for line in _told(results, robot, options, seconds):
        print(line)
    for line in dict.fromkeys(assumed for _, assumed in completed_ if assumed):
        print(f"note: assumed, since neither the file nor an option says otherwise: {line}")
    return 0


def _given(options: argparse.Namespace) -> Mapping[str, object]:
    """Return the fields of a sequence that options give."""
    given = {name: value for name in ENDS if (value := getattr(options, name)) is not None}
    if options.control_space is not None:
        given["control_space"] = 1 + CONTROL_SPACES.index(options.control_space)
    if options.dt is not None:
        given["dt"] = np.array([options.dt])
    return given


def _write(results: list[Integrated], robot: Robot, options: argparse.Namespace) -> None:
    first, out = results[0], options.out
    shown = first.trajectories[0]
    if out is not None and out.suffix == ".csv":
        write_table(out, shown)
    elif out is not None and out.suffix == ".npz":
        write_archive(out, [one.trajectories for one in results])
    elif out is not None:
        with_accelerations = first.motions[0].with_accelerations
        write_bag(out, [row for one in results for row in one.trajectories], with_accelerations)
    if options.plot is not None:
        sequence = first.sequence
        if sequence.control_space == BSPLINE:  # The points of the trajectory would not show it.
            from .integration import between_points

            shown = between_points(shown, first.motions[0])
        actions = "its" if sequence.recorded is not None else f"{sequence.fields['horizon']} actions:"
        title = f"{options.file.name}: integrated from {actions} {sequence.control_space}"
        draw_motion(options.plot, shown, robot, reference=sequence.recorded, title=title)


def _told(results: list[Integrated], robot: Robot, options: argparse.Namespace, seconds: float) -> Iterator[str]:
    """Yield lines for the user: input, derived quantities, files, exceeded limits."""
    first, shown = results[0].sequence, results[0].trajectories[0]
    trajectories, dof = sum(len(one.trajectories) for one in results), shown.dof
    of = f" of {len(results)} sequences" if len(results) > 1 else ""
    yield (
        f"{trajectories} {'trajectory' if trajectories == 1 else 'trajectories'}{of}, {len(shown.time)} points, "
        f"{dof} {'joint' if dof == 1 else 'joints'}, integrated in {1e3 * seconds:.1f} ms"
    )
    if first.recorded is not None and first.recorded.velocity is None:
        yield "note: start velocity by differences"
    yield "note: at rest in the end, after a brake where the plan does not stop"
    if first.recorded is not None:
        yield f"RMS difference from the recording: {_differences(shown, first.recorded, robot)}"
    if options.out is not None and options.out.suffix == ".csv" and trajectories > 1:
        yield f"note: {options.out} has the first trajectory; NPZ and bags take all"
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
